//! Structures as 32-bit programs have them in memory (include/linux/compat.h, arch/x86/include/asm/compat.h): each beside the kernel's own.

use super::member::Show::{
    AnyPointer, Device, FileSize, Handler, Inside, Limit, Named, Pointer, SignalData, Signals, Signed,
    Unsigned, Words,
};
use super::{
    ACTION, ALTERNATE, CAPABILITIES, CLOCK, CLONE, EPOLL_EVENT, EVENT, INTERVAL, INTERVAL_OLD, LIMIT, MOUNT,
    Member, NAMES, OPEN_HOW, POLL, RING, SCHEDULING, SCHEDULING_MORE, SEMAPHORE, STAT, STATFS, STATX, SYSTEM,
    Show, Structure, TIME, TIME_OLD, TIMES, USAGE,
};
use crate::syscall::Meaning;

/// A member at an offset, of a size, shown in some way.
const fn at(name: &'static str, at: usize, size: usize, show: Show) -> Member {
    Member { name, at, size, show }
}

/// A structure of two numbers of 4 bytes.
const fn two(members: &'static [Member; 2]) -> Structure {
    Structure {
        size: 8,
        members,
        more: false,
    }
}

/// `struct old_timespec32`.
static TIME_32: Structure = two(&[at("tv_sec", 0, 4, Signed), at("tv_nsec", 4, 4, Signed)]);
/// `struct old_timeval32`.
static TIME_OLD_32: Structure = two(&[at("tv_sec", 0, 4, Signed), at("tv_usec", 4, 4, Signed)]);
/// `struct old_itimerspec32`.
static INTERVAL_32: Structure = Structure {
    size: 16,
    members: &[
        at("it_interval", 0, 8, Inside(&TIME_32)),
        at("it_value", 8, 8, Inside(&TIME_32)),
    ],
    more: false,
};
/// `struct old_itimerval32`.
static INTERVAL_OLD_32: Structure = Structure {
    size: 16,
    members: &[
        at("it_interval", 0, 8, Inside(&TIME_OLD_32)),
        at("it_value", 8, 8, Inside(&TIME_OLD_32)),
    ],
    more: false,
};
/// `struct stat64` of i386 (arch/x86/include/uapi/asm/stat.h).
static STAT_64: Structure = Structure {
    size: 96,
    members: &[
        at("st_mode", 16, 4, Named(Meaning::FileMode)),
        at("st_size", 44, 8, FileSize),
        at("st_rdev", 32, 8, Device),
    ],
    more: true,
};
/// `struct compat_stat`.
static STAT_32: Structure = Structure {
    size: 64,
    members: &[
        at("st_mode", 8, 2, Named(Meaning::FileMode)),
        at("st_size", 20, 4, FileSize),
        at("st_rdev", 16, 4, Device),
    ],
    more: true,
};
/// `struct compat_statfs`.
static STATFS_32: Structure = Structure {
    size: 64,
    members: &[
        at("f_type", 0, 4, Named(Meaning::FileSystem)),
        at("f_bsize", 4, 4, Signed),
        at("f_blocks", 8, 4, Signed),
        at("f_bfree", 12, 4, Signed),
        at("f_bavail", 16, 4, Signed),
    ],
    more: true,
};
/// `struct compat_sigaction`.
static ACTION_32: Structure = Structure {
    size: 20,
    members: &[
        at("sa_handler", 0, 4, Handler),
        at("sa_mask", 12, 8, Signals),
        at("sa_flags", 4, 4, Named(Meaning::ActionFlags)),
        at("sa_restorer", 8, 4, AnyPointer),
    ],
    more: false,
};
/// `compat_stack_t`.
static ALTERNATE_32: Structure = Structure {
    size: 12,
    members: &[
        at("ss_sp", 0, 4, Pointer),
        at("ss_flags", 4, 4, Named(Meaning::SignalStack)),
        at("ss_size", 8, 4, Unsigned),
    ],
    more: false,
};
/// `struct compat_sigevent`, without what SIGEV_THREAD_ID has.
static EVENT_32: Structure = Structure {
    size: 12,
    members: &[
        at("sigev_value", 0, 4, SignalData),
        at("sigev_signo", 4, 4, Named(Meaning::Signal)),
        at("sigev_notify", 8, 4, Named(Meaning::Notify)),
    ],
    more: false,
};
/// `struct compat_rlimit`.
static LIMIT_32: Structure = two(&[at("rlim_cur", 0, 4, Limit), at("rlim_max", 4, 4, Limit)]);
/// `struct compat_rusage`.
static USAGE_32: Structure = Structure {
    size: 72,
    members: &[
        at("ru_utime", 0, 8, Inside(&TIME_OLD_32)),
        at("ru_stime", 8, 8, Inside(&TIME_OLD_32)),
    ],
    more: true,
};
/// `struct compat_tms`.
static TIMES_32: Structure = Structure {
    size: 16,
    members: &[
        at("tms_utime", 0, 4, Signed),
        at("tms_stime", 4, 4, Signed),
        at("tms_cutime", 8, 4, Signed),
        at("tms_cstime", 12, 4, Signed),
    ],
    more: false,
};
/// `struct compat_sysinfo`.
static SYSTEM_32: Structure = Structure {
    size: 64,
    members: &[
        at("uptime", 0, 4, Signed),
        at("loads", 4, 12, Words),
        at("totalram", 16, 4, Unsigned),
        at("freeram", 20, 4, Unsigned),
        at("sharedram", 24, 4, Unsigned),
        at("bufferram", 28, 4, Unsigned),
        at("totalswap", 32, 4, Unsigned),
        at("freeswap", 36, 4, Unsigned),
        at("procs", 40, 2, Unsigned),
        at("totalhigh", 44, 4, Unsigned),
        at("freehigh", 48, 4, Unsigned),
        at("mem_unit", 52, 4, Unsigned),
    ],
    more: false,
};

/// `struct compat_flock`.
pub static FILE_LOCK_32: Structure = Structure {
    size: 16,
    members: &[
        at("l_type", 0, 2, Named(Meaning::LockType)),
        at("l_whence", 2, 2, Named(Meaning::Whence)),
        at("l_start", 4, 4, Signed),
        at("l_len", 8, 4, Signed),
    ],
    more: false,
};
/// `struct compat_flock64`, whose numbers of 64 bits lie at multiples of 4.
pub static FILE_LOCK_64: Structure = Structure {
    size: 24,
    members: &[
        at("l_type", 0, 2, Named(Meaning::LockType)),
        at("l_whence", 2, 2, Named(Meaning::Whence)),
        at("l_start", 4, 8, Signed),
        at("l_len", 12, 8, Signed),
    ],
    more: false,
};
/// `struct old_timex32`.
static CLOCK_32: Structure = Structure {
    size: 128,
    members: &[
        at("modes", 0, 4, Named(Meaning::Adjust)),
        at("offset", 4, 4, Signed),
        at("freq", 8, 4, Signed),
        at("maxerror", 12, 4, Signed),
        at("esterror", 16, 4, Signed),
        at("status", 20, 4, Named(Meaning::ClockStatus)),
        at("constant", 24, 4, Signed),
        at("precision", 28, 4, Signed),
        at("tolerance", 32, 4, Signed),
        at("time", 36, 8, Inside(&TIME_OLD_32)),
        at("tick", 44, 4, Signed),
        at("ppsfreq", 48, 4, Signed),
        at("jitter", 52, 4, Signed),
        at("shift", 56, 4, Signed),
        at("stabil", 60, 4, Signed),
        at("jitcnt", 64, 4, Signed),
        at("calcnt", 68, 4, Signed),
        at("errcnt", 72, 4, Signed),
        at("stbcnt", 76, 4, Signed),
        at("tai", 80, 4, Signed),
    ],
    more: false,
};

/// Which structure of a 32-bit program stands for which of the kernel's own; those of the calls with `64` in their names are others.
#[rustfmt::skip]
const ROWS: &[(&Structure, &Structure)] = &[
    (&TIME, &TIME_32), (&TIME_OLD, &TIME_OLD_32), (&INTERVAL, &INTERVAL_32), (&INTERVAL_OLD, &INTERVAL_OLD_32), (&STAT, &STAT_32), (&STATFS, &STATFS_32),
    (&ACTION, &ACTION_32), (&ALTERNATE, &ALTERNATE_32), (&EVENT, &EVENT_32), (&LIMIT, &LIMIT_32), (&USAGE, &USAGE_32), (&TIMES, &TIMES_32),
    (&SYSTEM, &SYSTEM_32), (&CLOCK, &CLOCK_32),
];

/// Structures that are the same in both interfaces: of numbers of a fixed size without room between them.
#[rustfmt::skip]
const SAME: &[&Structure] = &[
    &CAPABILITIES, &CLONE, &EPOLL_EVENT, &MOUNT, &NAMES, &OPEN_HOW, &POLL, &RING, &SEMAPHORE, &SCHEDULING, &SCHEDULING_MORE, &STATX,
];

/// A structure as the 32-bit program that makes a call has it, where it is known; the call is one of the 32-bit interface.
pub(in crate::syscall) fn narrow(call: &str, of: &'static Structure) -> Option<&'static Structure> {
    let is = |row: &Structure| std::ptr::eq(row, of);
    if SAME.iter().any(|row| is(row)) {
        return Some(of);
    }
    if call.ends_with("64") {
        // Times and limits are those of the kernel's own; `struct stat64` is not.
        return Some(if is(&STAT) { &STAT_64 } else { of });
    }
    ROWS.iter().find(|(own, _)| is(own)).map(|(_, narrow)| *narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_lie_inside_of_their_structures() {
        for (own, narrow) in ROWS.iter().chain(&[(&STAT, &STAT_64)]) {
            assert!(narrow.size <= own.size, "{narrow:?}");
            for member in narrow.members {
                assert!(member.at + member.size <= narrow.size, "{member:?}");
                assert!(own.members.iter().any(|it| it.name == member.name), "{member:?}");
            }
        }
    }

    #[test]
    fn a_call_s_name_says_which_structure_it_takes() {
        let size = |call, of| narrow(call, of).map(|it| it.size);
        assert_eq!(size("clock_gettime", &TIME), Some(8));
        assert_eq!(size("clock_gettime64", &TIME), Some(16));
        assert_eq!(size("fstat64", &STAT), Some(96));
        assert_eq!(size("poll", &POLL), Some(8));
        assert_eq!(size("prlimit64", &LIMIT), Some(16));
        assert_eq!(size("adjtimex", &CLOCK), Some(128));
        assert_eq!(size("fcntl", &super::super::FILE_LOCK), None);
    }
}
