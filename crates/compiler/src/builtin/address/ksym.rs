//! `ksym`.

use super::super::{Builtin, Meaning};
use super::symbolic;

pub(crate) static KSYM: Builtin = Builtin {
    name: "ksym",
    numbered: false,
    usage: "ksym(address)",
    about: "an address of the kernel's, shown as symbol and offset",
    meaning: Meaning::Value(symbolic),
};
