//! The verbs of user space as built-ins: each row of the trace crate's table is one.

use super::row::{Builtin, BuiltinKind};
use kestrel_trace::action::{VERBS, Verb};
use std::sync::LazyLock;

static ROWS: LazyLock<Vec<Builtin>> = LazyLock::new(|| VERBS.iter().copied().map(builtin).collect());

/// Rows of these built-ins.
pub(super) fn rows() -> impl Iterator<Item = &'static Builtin> {
    ROWS.iter()
}

fn builtin(verb: &'static Verb) -> Builtin {
    Builtin {
        name: verb.name,
        numbered: false,
        usage: verb.usage,
        about: verb.about,
        kind: BuiltinKind::UserAction(verb),
    }
}
