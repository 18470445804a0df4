//! The built-in `freeze`: keeps a buffer as it is, without new records.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Action, StatementKind};

pub(crate) static FREEZE: Builtin = Builtin {
    name: "freeze",
    numbered: false,
    usage: "freeze(\"buffer\")",
    about: "let a buffer keep what it has and take nothing more",
    kind: BuiltinKind::Statement(|checker, usage| {
        let name = checker.steered_buffer(usage)?;
        Ok(StatementKind::Act(Action::Freeze(name)))
    }),
};
