//! The built-in `probetype`: the kind of the event.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::value::string_constant;

pub(crate) static PROBETYPE: Builtin = Builtin {
    name: "probetype",
    numbered: false,
    usage: "probetype",
    about: "the kind of the event: kprobe, tracepoint, …; special for begin, end and other events of the program's own",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(string_constant(checker.context.probe_type(), usage.span))
    }),
};
