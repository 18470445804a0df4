//! The built-in `cgroup_path`: the path of a control group.

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::narrowed;
use crate::lang::ast::ExprKind;
use kestrel_trace::layout::Named;

pub(crate) static CGROUP_PATH: Builtin = Builtin {
    name: "cgroup_path",
    numbered: false,
    usage: "cgroup_path(number[, \"hierarchies\"])",
    about: "the path of a control group by its number",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 2)?;
        let Some(number) = args.first() else {
            return Err(checker.error(usage.span, "a number is missing"));
        };
        let hierarchies = match args.get(1).map(|arg| &arg.kind) {
            None => String::new(),
            Some(ExprKind::String(text)) => text.clone(),
            Some(_) => return Err(checker.error(usage.span, "hierarchies are a string in quotes")),
        };
        let number = usage.scalar(checker, number)?;
        let span = number.span;
        let number = narrowed(number, Type::U64, span);
        Ok(named(Named::Cgroup { hierarchies }, vec![number], usage.span))
    }),
};
