//! Baseline of `kestrel-mark`: a bare write to /dev/null, with nothing attached.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "null-write",
    about: "bare write to /dev/null",
    baseline: None,
    limit: None,
    command: "cost null",
};
