//! Baseline of a program's own events: a function that adds to a number 100 times.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "number",
    about: "a number goes up 100 times",
    baseline: None,
    limit: None,
    command: "cost number 500 100",
};
