//! Ours: the same with an event of the program's own, to which nobody listens.

use super::{Promise, Row};

pub(super) const ROW: Row = Row {
    name: "own-event-off",
    about: "+ an event of the program's own, nobody listens",
    over: Some("number"),
    promise: Some(Promise::Instructions(1)),
    line: "cost event 2000 1000",
};
