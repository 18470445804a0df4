//! The built-in `system`: runs a command and prints its output.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static SYSTEM: Builtin = Builtin {
    name: "system",
    numbered: false,
    usage: "system(\"format\"[, value, …])",
    about: "run a command, which is a format with values, and print what it prints (with --unsafe)",
    kind: BuiltinKind::Statement(|checker, usage| {
        checker.needs_unsafe(usage)?;
        checker.formatted(usage, "system")
    }),
};
