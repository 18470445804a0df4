//! Times and intervals.

use super::member::Show::{Inside, Named, Signed};
use super::member::structure;
use super::member::{Member, Structure};
use crate::syscall::Meaning;

/// `struct timespec`.
pub static TIME: Structure =
    structure!(general::timespec [tv_sec = tv_sec: Signed, tv_nsec = tv_nsec: Signed,]);
/// `struct timeval`.
pub static TIME_OLD: Structure =
    structure!(general::timeval [tv_sec = tv_sec: Signed, tv_usec = tv_usec: Signed,]);
/// `struct itimerspec`.
pub static INTERVAL: Structure = structure!(general::itimerspec [it_interval = it_interval: Inside(&TIME), it_value = it_value: Inside(&TIME),]);
/// `struct itimerval`.
pub static INTERVAL_OLD: Structure = structure!(general::itimerval [it_interval = it_interval: Inside(&TIME_OLD), it_value = it_value: Inside(&TIME_OLD),]);

/// A word of `struct timex`.
const fn word(name: &'static str, at: usize) -> Member {
    Member {
        name,
        at,
        size: 8,
        show: Signed,
    }
}

/// The kernel's `struct timex` (include/uapi/linux/timex.h).
pub static CLOCK: Structure = Structure {
    size: 208,
    members: &[
        Member {
            name: "modes",
            at: 0,
            size: 4,
            show: Named(Meaning::Adjust),
        },
        word("offset", 8),
        word("freq", 16),
        word("maxerror", 24),
        word("esterror", 32),
        Member {
            name: "status",
            at: 40,
            size: 4,
            show: Named(Meaning::ClockStatus),
        },
        word("constant", 48),
        word("precision", 56),
        word("tolerance", 64),
        Member {
            name: "time",
            at: 72,
            size: 16,
            show: Inside(&TIME_OLD),
        },
        word("tick", 88),
        word("ppsfreq", 96),
        word("jitter", 104),
        Member {
            name: "shift",
            at: 112,
            size: 4,
            show: Signed,
        },
        word("stabil", 120),
        word("jitcnt", 128),
        word("calcnt", 136),
        word("errcnt", 144),
        word("stbcnt", 152),
        Member {
            name: "tai",
            at: 160,
            size: 4,
            show: Signed,
        },
    ],
    more: false,
};

#[cfg(test)]
pub(super) const ALL: &[&Structure] = &[&TIME, &TIME_OLD, &INTERVAL, &INTERVAL_OLD, &CLOCK];
