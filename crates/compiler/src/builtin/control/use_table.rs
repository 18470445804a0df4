//! The built-in `use_table`: makes another table active.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Action, StatementKind};

pub(crate) static USE_TABLE: Builtin = Builtin {
    name: "use_table",
    numbered: false,
    usage: "use_table(\"table\")",
    about: "make another table active, from the next event of every CPU on",
    kind: BuiltinKind::Statement(|checker, usage| {
        let name = checker.table_of(usage)?;
        Ok(StatementKind::Act(Action::UseTable(name)))
    }),
};
