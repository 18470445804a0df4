//! The built-in `signal_name`: the name of a signal.

use super::made::named_number;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::layout::Named;

pub(crate) static SIGNAL_NAME: Builtin = Builtin {
    name: "signal_name",
    numbered: false,
    usage: "signal_name(number)",
    about: "the name of a signal: SIGKILL",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(number) = args.first() else {
            return Err(checker.error(usage.span, "a number is missing"));
        };
        named_number(checker, Named::Signal, number, usage.span)
    }),
};
