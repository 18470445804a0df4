//! The built-in `delete`: removes a key of a map.

use super::place::place;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static DELETE: Builtin = Builtin {
    name: "delete",
    numbered: false,
    usage: "delete(@map[keys])",
    about: "forget one key of a map; also delete(@map, key)",
    kind: BuiltinKind::MapChange(|checker, usage| {
        let (name, keys) = place(checker, usage, 2, misplaced)?;
        checker.delete_key(name, &keys, usage.span)
    }),
};

fn misplaced(own: usize, beside: usize, has_keys: bool) -> Option<&'static str> {
    match (own, beside) {
        (0, 1) if !has_keys => {
            Some("call to delete() with two arguments expects a map with explicit keys (non-scalar map)")
        }
        (0, 0) if has_keys => {
            Some("call to delete() with a single argument expects a map without explicit keys (scalar map)")
        }
        (1.., 1..) => Some("Call to delete() has arguments that do not match any definition."),
        _ => None,
    }
}
