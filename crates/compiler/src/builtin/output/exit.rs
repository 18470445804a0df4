//! The built-in `exit`: ends the program.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static EXIT: Builtin = Builtin {
    name: "exit",
    numbered: false,
    usage: "exit([code])",
    about: "end the program: no handler begins any more but those of end",
    kind: BuiltinKind::Statement(|checker, usage| checker.exit(usage)),
};
