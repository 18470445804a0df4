//! The built-in `kstr`: the text at an address of the kernel.

use super::read::read;
use crate::builtin::row::{Builtin, Meaning};
use kestrel_trace::layout::Space;

pub(crate) static KSTR: Builtin = Builtin {
    name: "kstr",
    numbered: false,
    usage: "kstr(address[, bytes])",
    about: "the text at an address of the kernel",
    meaning: Meaning::Value(|checker, usage| read(checker, usage, Some(Space::Kernel))),
};
