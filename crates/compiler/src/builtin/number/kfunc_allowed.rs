//! The built-in `kfunc_allowed`: whether programs of the event may call a kfunc.

use super::kfunc_exist::exists;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::constant;

pub(crate) static KFUNC_ALLOWED: Builtin = Builtin {
    name: "kfunc_allowed",
    numbered: false,
    usage: "kfunc_allowed(\"function\")",
    about: "whether programs of this event may call a function of the kernel's for programs (kfunc): those of fentry, fexit, iterators and typed raw tracepoints may",
    kind: BuiltinKind::Value(|checker, usage| {
        let there = exists(checker, usage)?;
        let may = checker.context.program.is_tracing();
        Ok(constant(u64::from(there && may), Type::Bool, usage.span))
    }),
};
