//! The built-in `uptr`: marks an address as user-space memory.

use super::space::in_space;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::layout::Space;

pub(crate) static UPTR: Builtin = Builtin {
    name: "uptr",
    numbered: false,
    usage: "uptr(address)",
    about: "marks an address as user-space memory, for reads through it",
    kind: BuiltinKind::Value(|checker, usage| in_space(checker, usage, Space::User)),
};
