//! The base of what marks cost those who make none: a write to the null device, with nothing attached.

use super::Row;

pub(super) const ROW: Row = Row {
    name: "null-write",
    about: "bare write to /dev/null",
    over: None,
    promise: None,
    line: "cost null",
};
