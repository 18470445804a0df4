//! The built-in `errorf`: reports an error on standard error.

use crate::builtin::row::{Builtin, Meaning};

pub(crate) static ERRORF: Builtin = Builtin {
    name: "errorf",
    numbered: false,
    usage: "errorf(\"format\"[, value, …])",
    about: "say on standard error what went wrong, with the place in the program",
    meaning: Meaning::Action(|checker, usage| checker.placed(usage, "errorf")),
};
