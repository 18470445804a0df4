//! Clocks and timers.

use super::row::{Family, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::Clock,
        names(rows!(whole general [
            CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
            CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM, CLOCK_TAI,
        ])),
    ),
    (Meaning::Timer, flags(rows!(bit general [TIMER_ABSTIME]))),
    (
        Meaning::TimerFd,
        flags(rows!(bit general [TFD_CLOEXEC, TFD_NONBLOCK])),
    ),
    (
        Meaning::TimerFdSet,
        flags(rows!(bit general [TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET])),
    ),
    (
        Meaning::IntervalTimer,
        names(rows!(whole general [ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF])),
    ),
];
