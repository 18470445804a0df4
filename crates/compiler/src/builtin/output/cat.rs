//! The built-in `cat`: prints the contents of a file.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static CAT: Builtin = Builtin {
    name: "cat",
    numbered: false,
    usage: "cat(\"format\"[, value, …])",
    about: "print the contents of a file; its path is a format with values",
    kind: BuiltinKind::Statement(|checker, usage| checker.formatted(usage, "cat")),
};
