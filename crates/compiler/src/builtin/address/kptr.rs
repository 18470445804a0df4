//! The built-in `kptr`: an address taken as one of the kernel's memory.

use super::space::in_space;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::layout::Space;

pub(crate) static KPTR: Builtin = Builtin {
    name: "kptr",
    numbered: false,
    usage: "kptr(address)",
    about: "an address, as one in the kernel's memory",
    kind: BuiltinKind::Value(|checker, usage| in_space(checker, usage, Space::Kernel)),
};
