//! The built-in `warnf`: reports a warning on standard error.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static WARNF: Builtin = Builtin {
    name: "warnf",
    numbered: false,
    usage: "warnf(\"format\"[, value, …])",
    about: "say on standard error what is odd, with the place in the program",
    kind: BuiltinKind::Statement(|checker, usage| checker.placed(usage, "warnf")),
};
