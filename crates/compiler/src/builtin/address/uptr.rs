//! The built-in `uptr`: an address taken as one of the process's memory.

use super::space::in_space;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::layout::Space;

pub(crate) static UPTR: Builtin = Builtin {
    name: "uptr",
    numbered: false,
    usage: "uptr(address)",
    about: "an address, as one in the process's memory",
    kind: BuiltinKind::Value(|checker, usage| in_space(checker, usage, Space::User)),
};
