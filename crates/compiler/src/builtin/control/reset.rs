//! The built-in `reset`: empties a buffer.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Action, StatementKind};

pub(crate) static RESET: Builtin = Builtin {
    name: "reset",
    numbered: false,
    usage: "reset(\"buffer\")",
    about: "forget what a buffer holds",
    kind: BuiltinKind::Statement(|checker, usage| {
        let name = checker.steered_buffer(usage)?;
        Ok(StatementKind::Act(Action::Reset(name)))
    }),
};
