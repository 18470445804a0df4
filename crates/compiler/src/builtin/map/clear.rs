//! The built-in `clear`: removes all keys of a map.

use super::place::emptied;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static CLEAR: Builtin = Builtin {
    name: "clear",
    numbered: false,
    usage: "clear(@map)",
    about: "forget all keys of a map, at once for all CPUs",
    kind: BuiltinKind::Statement(|checker, usage| emptied(checker, usage, false)),
};
