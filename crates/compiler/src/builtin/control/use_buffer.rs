//! The built-in `use_buffer`: sets the buffer that records of this CPU go to.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Action, StatementKind};

pub(crate) static USE_BUFFER: Builtin = Builtin {
    name: "use_buffer",
    numbered: false,
    usage: "use_buffer(\"buffer\")",
    about: "send records of this CPU that name no buffer there, from now on",
    kind: BuiltinKind::Statement(|checker, usage| {
        let name = checker.steered_buffer(usage)?;
        Ok(StatementKind::Act(Action::UseBuffer(name)))
    }),
};
