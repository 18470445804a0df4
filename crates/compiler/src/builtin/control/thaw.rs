//! The built-in `thaw`: lets a frozen buffer take records again.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Action, StatementKind};

pub(crate) static THAW: Builtin = Builtin {
    name: "thaw",
    numbered: false,
    usage: "thaw(\"buffer\")",
    about: "let a frozen buffer take records again",
    kind: BuiltinKind::Statement(|checker, usage| {
        let name = checker.steered_buffer(usage)?;
        Ok(StatementKind::Act(Action::Thaw(name)))
    }),
};
