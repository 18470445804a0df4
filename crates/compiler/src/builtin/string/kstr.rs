//! The built-in `kstr`: the string at an address of the kernel.

use super::read::read;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::layout::Space;

pub(crate) static KSTR: Builtin = Builtin {
    name: "kstr",
    numbered: false,
    usage: "kstr(address[, bytes])",
    about: "the string at an address of the kernel",
    kind: BuiltinKind::Value(|checker, usage| read(checker, usage, Some(Space::Kernel))),
};
