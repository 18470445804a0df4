//! The built-in `clear`: removes all keys of a map.

use super::place::{Clearing, clear_whole};
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static CLEAR: Builtin = Builtin {
    name: "clear",
    numbered: false,
    usage: "clear(@map)",
    about: "remove all keys of a map, at once for all CPUs",
    kind: BuiltinKind::Statement(|checker, usage| clear_whole(checker, usage, Clearing::Forget)),
};
