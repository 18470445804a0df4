//! The built-in `ncpus`: the number of CPUs that are possible.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::constant;

pub(crate) static NCPUS: Builtin = Builtin {
    name: "ncpus",
    numbered: false,
    usage: "ncpus",
    about: "number of possible CPUs",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(constant(checker.globals.cpus, Type::U64, usage.span))
    }),
};
