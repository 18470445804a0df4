//! A peer: the same call with its entry tracepoint recorded into the tracefs ring.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "tracefs-tracepoint",
    about: "+ syscalls:sys_enter_getppid in the tracefs ring",
    baseline: Some("getppid"),
    limit: None,
    command: "cd /sys/kernel/tracing && echo 1 > events/syscalls/sys_enter_getppid/enable && cost getppid",
};
