//! The built-in `printf`: prints a text with values in it.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static PRINTF: Builtin = Builtin {
    name: "printf",
    numbered: false,
    usage: "printf(\"format\"[, value, …])",
    about: "print a format with values in it, as printf(3) does",
    kind: BuiltinKind::Statement(|checker, usage| checker.formatted(usage, "printf")),
};
