//! The built-in `strerror`: the text of an error by its number.

use super::made::named_number;
use crate::builtin::row::{Builtin, BuiltinKind};
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
        named_number(checker, Named::Error, number, usage.span)
    }),
};
