//! `null-write` while marks are recorded: a write that only passes the function which marks are recorded at.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "kestrel-mark",
    about: "+ marks recorded by kestrel; the write is no mark",
    baseline: Some("null-write"),
    limit: None,
    command: "kestrel record -a -o /tmp/trace -e mark -- cost null",
};
