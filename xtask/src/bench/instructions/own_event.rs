//! `number` with 100 events of kestrel-tracepoint that have no listener.

use super::row::{Limit, Row};

pub(super) const ROW: Row = Row {
    name: "own-event-off",
    about: "+ 100 events of the program's own, nobody listens",
    baseline: Some("number"),
    // One each; the rest, measured as 11, is what the function around them saves for a call that it may make.
    limit: Some(Limit::Instructions(112)),
    command: "cost event 500 100",
};
