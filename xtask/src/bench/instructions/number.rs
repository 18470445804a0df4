//! The floor for events of programs: a number that goes up 100 times in a function.

use super::Row;

pub(super) const ROW: Row = Row {
    name: "number",
    about: "a number goes up 100 times",
    over: None,
    promise: None,
    line: "cost number 500 100",
};
