//! The built-in `probetype`: the kind of the event.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::value::string_constant;
use crate::context::ProgramKind;

/// The kinds of events whose names begin with them.
const KINDS: &[&str] = &[
    "fentry",
    "fexit",
    "hardware",
    "interval",
    "iter",
    "kprobe",
    "kretprobe",
    "profile",
    "rawtracepoint",
    "software",
    "tracepoint",
    "uprobe",
    "uretprobe",
    "usdt",
    "watchpoint",
];

pub(crate) static PROBETYPE: Builtin = Builtin {
    name: "probetype",
    numbered: false,
    usage: "probetype",
    about: "the kind of the event: kprobe, tracepoint, …; special for begin, end and other events of the program's own",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        let first = context.name.split(':').next().unwrap_or_default();
        let kind = match KINDS.iter().find(|kind| **kind == first) {
            Some(kind) => kind,
            // Their names begin with their subsystem.
            None if context.program == ProgramKind::Tracepoint
                || context.name.contains(':') && !is_own(first) =>
            {
                "tracepoint"
            }
            None => "special",
        };
        Ok(string_constant(kind, usage.span))
    }),
};

fn is_own(first: &str) -> bool {
    matches!(first, "self" | "bench" | "test" | "begin" | "end")
}
