//! `delete`.

use super::super::{Builtin, Meaning};
use super::place;

pub(crate) static DELETE: Builtin = Builtin {
    name: "delete",
    numbered: false,
    usage: "delete(@map[keys])",
    about: "forget one key of a map; also delete(@map, key)",
    meaning: Meaning::Action(|checker, usage| {
        let (name, keys) = place(checker, usage, 2)?;
        checker.delete_key(name, &keys, usage.span)
    }),
};
