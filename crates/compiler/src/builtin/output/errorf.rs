//! The built-in `errorf`: reports an error on standard error.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static ERRORF: Builtin = Builtin {
    name: "errorf",
    numbered: false,
    usage: "errorf(\"format\"[, value, …])",
    about: "say on standard error what went wrong, with the place in the program",
    kind: BuiltinKind::Statement(|checker, usage| checker.placed(usage, "errorf")),
};
