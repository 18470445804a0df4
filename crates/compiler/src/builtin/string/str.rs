//! The built-in `str`: the string at an address.

use super::read::read;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static STR: Builtin = Builtin {
    name: "str",
    numbered: false,
    usage: "str(address[, bytes])",
    about: "the string at an address, the kernel's or the process's",
    kind: BuiltinKind::Value(|checker, usage| read(checker, usage, None)),
};
