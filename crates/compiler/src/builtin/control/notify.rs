//! `notify`.

use crate::builtin::row::{Builtin, Meaning};
use crate::check::telling::Telling;
use crate::check::tree::Message;

pub(crate) static NOTIFY: Builtin = Builtin {
    name: "notify",
    numbered: false,
    usage: "notify(\"text\"[, args | value | name = value, …])",
    about: "tell the session's agent, with the event's fields or the values given",
    meaning: Meaning::Action(|checker, usage| checker.message(usage, &TELLING)),
};

static TELLING: Telling = Telling {
    what: "a text",
    values: "give the values after it: notify(\"text\", pid, comm)",
    check: |_| Ok(()),
    unheard: None,
    make: Message::Notify,
};
