//! Field rules of tracepoints of timers and power.

use super::row::{Fields, Row};

const HRTIMER: Fields = &[("hrtimer", "hrtimer")];
const TIMER: Fields = &[("timer", "timer")];
const CPU_STATE: Fields = &[("state", "state"), ("cpu_id", "cpu_id")];

pub(super) const ROWS: &[Row] = &[
    ("timer:hrtimer_cancel", HRTIMER),
    ("timer:hrtimer_expire_exit", HRTIMER),
    ("timer:hrtimer_start_expired", HRTIMER),
    ("timer:timer_cancel", TIMER),
    ("timer:timer_expire_exit", TIMER),
    ("timer:timer_init", TIMER),
    ("power:cpu_idle", CPU_STATE),
    (
        "power:cpu_frequency",
        &[("state", "frequency"), ("cpu_id", "cpu_id")],
    ),
    (
        "timer:hrtimer_start",
        &[
            ("function", "hrtimer->function"),
            ("expires", "hrtimer->node.expires"),
            ("softexpires", "hrtimer->_softexpires"),
        ],
    ),
    (
        "timer:hrtimer_expire_entry",
        &[("function", "hrtimer->function"), ("now", "*now")],
    ),
    (
        "timer:hrtimer_expire_entry",
        &[("function", "hrtimer->function"), ("now", "now")],
    ),
];
