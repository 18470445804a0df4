//! The built-in `join`: prints the strings of an array on one line.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static JOIN: Builtin = Builtin {
    name: "join",
    numbered: false,
    usage: "join(array[, \"between\"])",
    about: "print the strings at an array of addresses on one line",
    kind: BuiltinKind::Statement(|checker, usage| checker.join(usage)),
};
