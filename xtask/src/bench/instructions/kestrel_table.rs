//! Ours: the same call with its entry recorded by a table of a persistent session, into a buffer that overwrites the oldest.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "kestrel-table",
    about: "+ syscalls:sys_enter_getppid recorded by a table",
    baseline: Some("getppid"),
    limit: None,
    command: "echo 'buffer main { size = 4M mode = overwrite } \
           table one { syscalls:sys_enter_getppid { record() } }' > /tmp/one.kst && \
           kestrel start /tmp/one.kst > /dev/null 2>&1 && cost getppid",
};
