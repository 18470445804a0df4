//! The built-in `syscall_name`: the name of a system call.

use super::made::named_number;
use crate::builtin::row::{Builtin, BuiltinKind};
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
        named_number(checker, Named::SystemCall, number, usage.span)
    }),
};
