//! The built-in `delete`: removes a key of a map.

use super::place::place;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static DELETE: Builtin = Builtin {
    name: "delete",
    numbered: false,
    usage: "delete(@map[keys])",
    about: "forget one key of a map; also delete(@map, key)",
    kind: BuiltinKind::MapChange(|checker, usage| {
        let (name, keys) = place(checker, usage, 2)?;
        checker.delete_key(name, &keys, usage.span)
    }),
};
