//! `getppid` with its entry tracepoint recorded by Kestrel.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "kestrel-tracepoint",
    about: "+ syscalls:sys_enter_getppid recorded by kestrel",
    baseline: Some("getppid"),
    limit: None,
    command: "kestrel record -o /tmp/trace -e syscalls:sys_enter_getppid -- cost getppid",
};
