//! The built-in `has_key`: whether a map has a key.

use super::place::place;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static HAS_KEY: Builtin = Builtin {
    name: "has_key",
    numbered: false,
    usage: "has_key(@map, key)",
    about: "whether a map holds something under a key; several keys are written @map[a, b]",
    kind: BuiltinKind::Value(|checker, usage| {
        let (name, keys) = place(checker, usage, 2, misplaced)?;
        checker.has_key(name, &keys, usage.span)
    }),
};

fn misplaced(own: usize, beside: usize, has_keys: bool) -> Option<&'static str> {
    match (own, beside) {
        (0, 1) if !has_keys => Some("call to has_key() expects a map with explicit keys (non-scalar map)"),
        (0, 0) | (1.., 1..) => Some("Call to has_key() has arguments that do not match any definition."),
        _ => None,
    }
}
