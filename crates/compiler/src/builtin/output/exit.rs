//! The built-in `exit`: ends the program.

use crate::builtin::row::{Builtin, Meaning};

pub(crate) static EXIT: Builtin = Builtin {
    name: "exit",
    numbered: false,
    usage: "exit([code])",
    about: "end the program: no handler begins any more but those of end",
    meaning: Meaning::Action(|checker, usage| checker.exit(usage)),
};
