//! `zero`.

use super::super::{Builtin, Meaning};
use super::emptied;

pub(crate) static ZERO: Builtin = Builtin {
    name: "zero",
    numbered: false,
    usage: "zero(@map)",
    about: "let all values of a map begin at 0 again; keys show when they are used again",
    meaning: Meaning::Action(emptied),
};
