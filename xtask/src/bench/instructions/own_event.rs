//! `number` with 100 events of kestrel-tracepoint that have no listener.

use super::{Promise, Row};

pub(super) const ROW: Row = Row {
    name: "own-event-off",
    about: "+ 100 events of the program's own, nobody listens",
    over: Some("number"),
    // One each; the rest, measured as 11, is what the function around them saves for a call that it may make.
    promise: Some(Promise::Instructions(112)),
    line: "cost event 500 100",
};
