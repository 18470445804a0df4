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
        let there = existing(checker, usage)?;
        Ok(constant(u64::from(there.is_some()), Type::Bool, usage.span))
    }),
};

/// The function that an argument names, where the types of the kernel have it.
pub(super) fn existing(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Option<String>> {
    let args = usage.positional(checker, 1, 1)?;
    let Some(name) = args.first() else {
        return Err(checker.error(usage.span, "the name of a function is missing"));
    };
    let value = checker.expression(name)?;
    let ExprKind::ConstantBytes(name) = &value.kind else {
        return Err(checker.error(name.span, "the name of a function is a string that is known now"));
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let btf = checker.btf();
    let found = btf.and_then(|btf| btf.find(BtfKind::Func, &name));
    Ok(found.map(|_| name))
}
