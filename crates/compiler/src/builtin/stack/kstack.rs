//! The built-in `kstack`: the stack of the kernel.

use super::depth::stack;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::layout::Space;

pub(crate) static KSTACK: Builtin = Builtin {
    name: "kstack",
    numbered: false,
    usage: "kstack[([mode, ]depth)]",
    about: "the kernel's stack, innermost first",
    kind: BuiltinKind::Value(|checker, usage| stack(checker, usage, Space::Kernel)),
};
