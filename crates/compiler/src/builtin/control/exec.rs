//! `exec`.

use crate::builtin::row::{Builtin, Meaning};
use crate::check::telling::Telling;
use crate::check::tree::Message;

pub(crate) static EXEC: Builtin = Builtin {
    name: "exec",
    numbered: false,
    usage: "exec(\"command\"[, args | value | name = value, …])",
    about: "let the session's agent run a command, with the fields in its environment and as JSON on its standard input",
    meaning: Meaning::Action(|checker, usage| checker.message(usage, &TELLING)),
};

static TELLING: Telling = Telling {
    what: "a command",
    values: "give the values after it: exec(\"command\", pid, comm); the command finds them in its environment and as JSON on its standard input",
    check: |_| Ok(()),
    unheard: Some("runs nothing without a session and its agent"),
    make: Message::Exec,
};
