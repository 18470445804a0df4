//! The built-in `ustack`: the stack of the process.

use super::depth::stack;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::layout::Space;

pub(crate) static USTACK: Builtin = Builtin {
    name: "ustack",
    numbered: false,
    usage: "ustack[([mode, ]depth)]",
    about: "the process's stack, innermost first",
    kind: BuiltinKind::Value(|checker, usage| stack(checker, usage, Space::User)),
};
