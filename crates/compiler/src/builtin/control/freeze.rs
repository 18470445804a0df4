//! The built-in `freeze`: stops a buffer from taking records.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Action, StatementKind};

pub(crate) static FREEZE: Builtin = Builtin {
    name: "freeze",
    numbered: false,
    usage: "freeze(\"buffer\")",
    about: "keep what a buffer holds: new records are lost",
    kind: BuiltinKind::Statement(|checker, usage| {
        let name = checker.steered_buffer(usage)?;
        Ok(StatementKind::Act(Action::Freeze(name)))
    }),
};
