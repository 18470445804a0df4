//! The built-in `strstr`: where in a string another one begins.

use super::find::find;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static STRSTR: Builtin = Builtin {
    name: "strstr",
    numbered: false,
    usage: "strstr(string, \"part\")",
    about: "where in a string another one begins, or -1",
    kind: BuiltinKind::Value(find),
};
