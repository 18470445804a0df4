//! The floor for events of programs: a number that goes up, by a call of a function.

use super::Row;

pub(super) const ROW: Row = Row {
    name: "number",
    about: "a number goes up",
    over: None,
    promise: None,
    line: "cost number 2000 1000",
};
