//! Processes: how they are made, limited and counted; the names of the system.

use super::member::Show::{AnyPointer, Inside, Limit, Named, Pointer, Signed, Text, Unsigned, Words};
use super::member::structure;
use super::member::{Member, Show, Structure};
use super::time;
use crate::syscall::Meaning;

/// `struct clone_args`.
pub static CLONE: Structure = structure!(general::clone_args [
    flags = flags: Named(Meaning::Namespace), pidfd = pidfd: AnyPointer, child_tid = child_tid: AnyPointer, parent_tid = parent_tid: AnyPointer,
    exit_signal = exit_signal: Named(Meaning::Signal), stack = stack: Pointer, stack_size = stack_size: Unsigned, tls = tls: AnyPointer,
]);
/// `struct rlimit`.
pub static LIMIT: Structure =
    structure!(general::rlimit64 [rlim_cur = rlim_cur: Limit, rlim_max = rlim_max: Limit,]);
/// `struct rusage`.
pub static USAGE: Structure = structure!(general::rusage [
    ru_utime = ru_utime: Inside(&time::TIME_OLD), ru_stime = ru_stime: Inside(&time::TIME_OLD),
] "…");
/// `struct utsname`, as far as it is shown.
pub static NAMES: Structure = Structure {
    size: 195,
    members: &[
        Member {
            name: "sysname",
            at: 0,
            size: 65,
            show: Text,
        },
        Member {
            name: "nodename",
            at: 65,
            size: 65,
            show: Text,
        },
    ],
    more: true,
};
/// `struct sched_param`.
pub static SCHEDULING: Structure = Structure {
    size: 4,
    members: &[Member {
        name: "sched_priority",
        at: 0,
        size: 4,
        show: Signed,
    }],
    more: false,
};

/// A member of 4 or 8 bytes of a structure that the crate of headers lacks.
const fn own(name: &'static str, at: usize, size: usize, show: Show) -> Member {
    Member { name, at, size, show }
}

/// `struct sched_attr`.
pub static SCHEDULING_MORE: Structure = Structure {
    size: 56,
    members: &[
        own("size", 0, 4, Unsigned),
        own("sched_policy", 4, 4, Named(Meaning::Scheduler)),
        own("sched_flags", 8, 8, Named(Meaning::SchedulerFlags)),
        own("sched_nice", 16, 4, Signed),
        own("sched_priority", 20, 4, Unsigned),
        own("sched_runtime", 24, 8, Unsigned),
        own("sched_deadline", 32, 8, Unsigned),
        own("sched_period", 40, 8, Unsigned),
        own("sched_util_min", 48, 4, Unsigned),
        own("sched_util_max", 52, 4, Unsigned),
    ],
    more: false,
};
/// `struct tms`.
pub static TIMES: Structure = Structure {
    size: 32,
    members: &[
        own("tms_utime", 0, 8, Signed),
        own("tms_stime", 8, 8, Signed),
        own("tms_cutime", 16, 8, Signed),
        own("tms_cstime", 24, 8, Signed),
    ],
    more: false,
};
/// `struct sysinfo`.
pub static SYSTEM: Structure = structure!(system::sysinfo [
    uptime = uptime: Signed, loads = loads: Words, totalram = totalram: Unsigned, freeram = freeram: Unsigned, sharedram = sharedram: Unsigned,
    bufferram = bufferram: Unsigned, totalswap = totalswap: Unsigned, freeswap = freeswap: Unsigned, procs = procs: Unsigned,
    totalhigh = totalhigh: Unsigned, freehigh = freehigh: Unsigned, mem_unit = mem_unit: Unsigned,
]);
/// The header of capget(2) and capset(2).
pub static CAPABILITIES: Structure = Structure {
    size: 8,
    members: &[
        own("version", 0, 4, Named(Meaning::CapabilityVersion)),
        own("pid", 4, 4, Signed),
    ],
    more: false,
};

/// `struct sembuf`.
pub static SEMAPHORE: Structure = Structure {
    size: 6,
    members: &[
        own("sem_num", 0, 2, Unsigned),
        own("sem_op", 2, 2, Signed),
        own("sem_flg", 4, 2, Named(Meaning::SemaphoreFlags)),
    ],
    more: false,
};

#[cfg(test)]
pub(super) const ALL: &[&Structure] = &[
    &CLONE,
    &LIMIT,
    &USAGE,
    &NAMES,
    &SCHEDULING,
    &SCHEDULING_MORE,
    &TIMES,
    &SYSTEM,
    &CAPABILITIES,
    &SEMAPHORE,
];
