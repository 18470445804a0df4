//! Ours: the same call with its entry tracepoint recorded.

use super::Row;

pub(super) const ROW: Row = Row {
    name: "kestrel-tracepoint",
    about: "+ syscalls:sys_enter_getppid recorded by kestrel",
    over: Some("getppid"),
    promise: None,
    line: "kestrel record -o /tmp/trace -e syscalls:sys_enter_getppid -- cost getppid",
};
