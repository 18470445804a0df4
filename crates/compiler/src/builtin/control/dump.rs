//! `dump`.

use crate::builtin::row::{Builtin, Meaning};
use crate::check::telling::Telling;
use crate::check::tree::{Message, dump_time};

pub(crate) static DUMP: Builtin = Builtin {
    name: "dump",
    numbered: false,
    usage: "dump(\"10s\"[, args | value | name = value, …])",
    about: "let the session's agent write what its buffers hold of so long before this event into a trace of its own; with the event's fields or the values given in its line",
    meaning: Meaning::Action(|checker, usage| checker.message(usage, &TELLING)),
};

static TELLING: Telling = Telling {
    what: "how long before the event the trace begins",
    values: "give the values after it: dump(\"10s\", pid, comm)",
    check: |text| dump_time(text).map(drop),
    unheard: Some("writes no trace without a session and its agent"),
    make: Message::Dump,
};
