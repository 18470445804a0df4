//! The built-in `has_key`: whether a map has a key.

use super::place::place;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static HAS_KEY: Builtin = Builtin {
    name: "has_key",
    numbered: false,
    usage: "has_key(@map, key)",
    about: "whether a map holds something under a key; several keys are written @map[a, b]",
    kind: BuiltinKind::Value(|checker, usage| {
        let (name, keys) = place(checker, usage, 2)?;
        checker.has_key(name, &keys, usage.span)
    }),
};
