//! The built-in `signal`: sends a signal to the process that runs.

use crate::builtin::row::{Builtin, BuiltinKind, Use};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{StatementKind, Type};
use crate::check::value::constant;
use crate::context::{Context, ProgramKind};
use crate::lang::ast::ExprKind;
use crate::lang::diag::{Diagnostic, nearest};
use kestrel_bpf::helper::{self, Helper};
use kestrel_trace::event_kind::{self, SeenBy};

pub(crate) static SIGNAL: Builtin = Builtin {
    name: "signal",
    numbered: false,
    usage: "signal(\"NAME\" | number)",
    about: "send a signal to the process that runs: signal(\"STOP\") holds it where it is",
    kind: BuiltinKind::Statement(|checker, usage| sent(checker, usage, "signal", helper::SEND_SIGNAL)),
};

/// A signal that a helper sends. A program of its own must be allowed to; a table file belongs to who may write it.
pub(super) fn sent(
    checker: &mut Checker<'_>,
    usage: &Use<'_>,
    verb: &'static str,
    helper: Helper,
) -> Checked<StatementKind> {
    if checker.globals.infers_types {
        checker.needs_unsafe(usage)?;
    }
    let given = usage.positional(checker, 1, 1)?;
    checker.needs_unsafe_in_programs(usage)?;
    if let Some(whom) = wrong_target(checker.context) {
        let message = format!(
            "{verb}() can not be used for this probetype {}",
            checker.context.probe_type()
        );
        let hint = format!(
            "in {} it would be sent to {whom}: send it where the process runs, in a tracepoint, a kprobe or a uprobe",
            checker.context.name
        );
        return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
    }
    let [value] = given.as_slice() else {
        return Err(checker.error(usage.span, format!("{verb}() takes one argument")));
    };
    let number = match &value.kind {
        ExprKind::String(name) => {
            let Some(number) = number_of(name) else {
                let near = nearest(name, SIGNALS.iter().map(|(_, name)| *name));
                let hint = near.first().map(|near| format!("did you mean {near}?"));
                let unknown = Diagnostic::error(value.span, format!("Invalid string for signal: {name}"));
                return Err(checker.report(unknown.maybe_hint(hint)));
            };
            constant(number, Type::integer(4, false), value.span)
        }
        _ => checker.scalar(value)?,
    };
    if number
        .constant()
        .is_some_and(|number| !(1..=MAX).contains(&number))
    {
        let message =
            format!("{verb}() accepts a string literal or an integer between 1 and {MAX} (inclusive)");
        return Err(checker.error(value.span, message));
    }
    Ok(StatementKind::Perform {
        verb,
        helper,
        operands: vec![number],
    })
}

/// The process that `signal()` would reach at an event of no process: the tracer, which runs the programs of its own events, or a bystander that happens to run.
fn wrong_target(context: &Context) -> Option<&'static str> {
    match context.kind() {
        Some(kind) if kind.seen_by == SeenBy::Session => Some("the tracer itself"),
        Some(kind) if kind.name == event_kind::INTERVAL.name => Some("whatever process happens to run"),
        _ if context.program == ProgramKind::Iterator => {
            Some("the process that reads the iterator, not to the one that it has come to")
        }
        _ => None,
    }
}

/// The last real-time signal.
const MAX: u64 = 64;

/// A table: the signals by name, as `kill -l` has them; their numbers are those of x86 and ARM (`asm-generic/signal.h`).
const SIGNALS: &[(u64, &str)] = &[
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (4, "ILL"),
    (5, "TRAP"),
    (6, "ABRT"),
    (7, "BUS"),
    (8, "FPE"),
    (9, "KILL"),
    (10, "USR1"),
    (11, "SEGV"),
    (12, "USR2"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
    (16, "STKFLT"),
    (17, "CHLD"),
    (18, "CONT"),
    (19, "STOP"),
    (20, "TSTP"),
    (21, "TTIN"),
    (22, "TTOU"),
    (23, "URG"),
    (24, "XCPU"),
    (25, "XFSZ"),
    (26, "VTALRM"),
    (27, "PROF"),
    (28, "WINCH"),
    (29, "IO"),
    (30, "PWR"),
    (31, "SYS"),
];

/// The number, with or without `SIG`, in letters of either case.
fn number_of(name: &str) -> Option<u64> {
    let name = name.to_ascii_uppercase();
    let bare = name.strip_prefix("SIG").unwrap_or(&name);
    let mut rows = SIGNALS.iter();
    rows.find(|(_, known)| *known == bare).map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_found_by_their_names() {
        for name in ["USR1", "SIGUSR1", "sigusr1", "usr1"] {
            assert_eq!(number_of(name), Some(10), "{name}");
        }
        assert_eq!(number_of("SIGSIG"), None);
    }
}
