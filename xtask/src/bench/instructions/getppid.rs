//! The base that the other rows are read against: a system call that does next to nothing, with nothing attached.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "getppid",
    about: "bare system call",
    baseline: None,
    limit: None,
    command: "cost getppid",
};
