//! The built-in `ksym`: the kernel symbol that an address lies in.

use super::space::symbolic;
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static KSYM: Builtin = Builtin {
    name: "ksym",
    numbered: false,
    usage: "ksym(address)",
    about: "the symbol that an address of the kernel lies in",
    kind: BuiltinKind::Value(symbolic),
};
