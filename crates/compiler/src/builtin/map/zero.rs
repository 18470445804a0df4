//! `zero`.

use super::place::emptied;
use crate::builtin::row::{Builtin, Meaning};

pub(crate) static ZERO: Builtin = Builtin {
    name: "zero",
    numbered: false,
    usage: "zero(@map)",
    about: "let all values of a map begin at 0 again; keys show when they are used again",
    meaning: Meaning::Action(emptied),
};
