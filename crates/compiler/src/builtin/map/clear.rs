//! `clear`.

use super::super::{Builtin, Meaning};
use super::emptied;

pub(crate) static CLEAR: Builtin = Builtin {
    name: "clear",
    numbered: false,
    usage: "clear(@map)",
    about: "forget all keys of a map, at once for all CPUs",
    meaning: Meaning::Action(emptied),
};
