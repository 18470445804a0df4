//! The built-in `zero`: sets all values of a map to 0.

use super::place::{Clearing, clear_whole};
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static ZERO: Builtin = Builtin {
    name: "zero",
    numbered: false,
    usage: "zero(@map)",
    about: "let all values of a map begin at 0 again; its keys stay",
    kind: BuiltinKind::Statement(|checker, usage| clear_whole(checker, usage, Clearing::Zero)),
};
