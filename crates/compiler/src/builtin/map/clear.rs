//! The built-in `clear`: removes all keys of a map.

use super::place::emptied;
use crate::builtin::row::{Builtin, Meaning};

pub(crate) static CLEAR: Builtin = Builtin {
    name: "clear",
    numbered: false,
    usage: "clear(@map)",
    about: "forget all keys of a map, at once for all CPUs",
    meaning: Meaning::Action(|checker, usage| emptied(checker, usage, false)),
};
