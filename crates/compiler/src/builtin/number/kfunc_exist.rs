//! The built-in `kfunc_exist`: whether the kernel's types have a function of a name; whether that is one for programs (a kfunc) they do not say.

use crate::builtin::row::{Builtin, BuiltinKind, Use};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{ExprKind, Type};
use crate::check::value::constant;
use kestrel_bpf::btf::BtfKind;

pub(crate) static KFUNC_EXIST: Builtin = Builtin {
    name: "kfunc_exist",
    numbered: false,
    usage: "kfunc_exist(\"function\")",
    about: "whether this kernel's types have a function of that name; whether it is one for programs (kfunc) they do not say",
    kind: BuiltinKind::Value(|checker, usage| {
        let there = exists(checker, usage)?;
        Ok(constant(u64::from(there), Type::Bool, usage.span))
    }),
};

/// Whether the types of the kernel have the function that an argument names.
pub(super) fn exists(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<bool> {
    let args = usage.positional(checker, 1, 1)?;
    let Some(name) = args.first() else {
        return Err(checker.error(usage.span, "the name of a function is missing"));
    };
    let value = checker.expression(name)?;
    let ExprKind::ConstantBytes(name) = &value.kind else {
        return Err(checker.error(name.span, "the name of a function is a string that is known now"));
    };
    let name = String::from_utf8_lossy(name);
    Ok(checker
        .btf()
        .is_some_and(|btf| btf.find(BtfKind::Func, &name).is_some()))
}
