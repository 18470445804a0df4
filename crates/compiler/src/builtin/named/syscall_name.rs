//! The built-in `syscall_name`: the name of a system call.

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::narrowed;
use kestrel_trace::layout::Named;

pub(crate) static SYSCALL_NAME: Builtin = Builtin {
    name: "syscall_name",
    numbered: false,
    usage: "syscall_name(number)",
    about: "the name of a system call",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(number) = args.first() else {
            return Err(checker.error(usage.span, "a number is missing"));
        };
        let number = checker.scalar(number)?;
        let span = number.span;
        let part = narrowed(number, Type::integer(4, false), span);
        Ok(named(Named::SystemCall, vec![part], usage.span))
    }),
};
