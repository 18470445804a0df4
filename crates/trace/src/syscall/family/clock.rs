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
    (
        Meaning::Adjust,
        flags(rows!(+ [
            ADJ_OFFSET = 1 / 1, ADJ_FREQUENCY = 2 / 2, ADJ_MAXERROR = 4 / 4, ADJ_ESTERROR = 8 / 8, ADJ_STATUS = 16 / 16, ADJ_TIMECONST = 32 / 32,
            ADJ_TAI = 0x80 / 0x80, ADJ_SETOFFSET = 0x100 / 0x100, ADJ_MICRO = 0x1000 / 0x1000, ADJ_NANO = 0x2000 / 0x2000, ADJ_TICK = 0x4000 / 0x4000,
        ])),
    ),
    (
        Meaning::ClockStatus,
        flags(rows!(+ [
            STA_PLL = 1 / 1, STA_PPSFREQ = 2 / 2, STA_PPSTIME = 4 / 4, STA_FLL = 8 / 8, STA_INS = 16 / 16, STA_DEL = 32 / 32, STA_UNSYNC = 64 / 64,
            STA_FREQHOLD = 128 / 128, STA_PPSSIGNAL = 0x100 / 0x100, STA_PPSJITTER = 0x200 / 0x200, STA_PPSWANDER = 0x400 / 0x400,
            STA_PPSERROR = 0x800 / 0x800, STA_CLOCKERR = 0x1000 / 0x1000, STA_NANO = 0x2000 / 0x2000, STA_MODE = 0x4000 / 0x4000,
            STA_CLK = 0x8000 / 0x8000,
        ])),
    ),
];
