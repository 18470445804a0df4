//! Ours: the same write while marks are recorded, which come through the same function of the kernel.

use super::Row;

pub(super) const ROW: Row = Row {
    name: "kestrel-mark",
    about: "+ marks recorded by kestrel, of which this is none",
    over: Some("null-write"),
    promise: None,
    line: "kestrel record -a -o /tmp/trace -e mark -- cost null",
};
