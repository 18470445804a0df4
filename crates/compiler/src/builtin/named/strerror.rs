//! The built-in `strerror`: the text of an error by its number.

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::narrowed;
use kestrel_trace::layout::Named;

pub(crate) static STRERROR: Builtin = Builtin {
    name: "strerror",
    numbered: false,
    usage: "strerror(number)",
    about: "the message of an error by its number: No such file or directory",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(number) = args.first() else {
            return Err(checker.error(usage.span, "a number is missing"));
        };
        let number = checker.scalar(number)?;
        let span = number.span;
        let part = narrowed(number, Type::integer(4, true), span);
        Ok(named(Named::Error, vec![part], usage.span))
    }),
};
