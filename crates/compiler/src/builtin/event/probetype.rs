//! The built-in `probetype`: the kind of the event.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::value::string_constant;
use crate::context::ProgramKind;
use kestrel_trace::event_kind::{self, SeenBy};

pub(crate) static PROBETYPE: Builtin = Builtin {
    name: "probetype",
    numbered: false,
    usage: "probetype",
    about: "the kind of the event: kprobe, tracepoint, …; special for begin, end and other events of the program's own",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        let first = context.name.split(':').next().unwrap_or_default();
        let kind = match event_kind::find(first) {
            Some(kind) if kind.seen_by == SeenBy::Session => "special",
            Some(kind) => kind.name,
            // Names of static events begin with their subsystem.
            None if context.program == ProgramKind::Tracepoint || context.name.contains(':') => {
                event_kind::TRACEPOINT.name
            }
            None => "special",
        };
        Ok(string_constant(kind, usage.span))
    }),
};
