//! The built-in `override`: makes the probed function return a value without running.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, StatementKind, Type};
use crate::context::ProgramKind;
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper;

pub(crate) static OVERRIDE: Builtin = Builtin {
    name: "override",
    numbered: false,
    usage: "override(value)",
    about: "have the probed function return that value without running, at kprobes of functions that the kernel lets fail (with --unsafe)",
    kind: BuiltinKind::Statement(|checker, usage| {
        checker.needs_unsafe(usage)?;
        let args = usage.positional(checker, 1, 1)?;
        let Some(value) = args.first() else {
            return Err(checker.error(usage.span, "the value to return is missing"));
        };
        let value = checker.scalar(value)?;
        if checker.context.program != ProgramKind::Kprobe || checker.context.name.starts_with('u') {
            let message = "override() can only be used inside kprobes";
            let hint = "the function must be entered, and not be left yet; functions that may be overridden are in /sys/kernel/debug/error_injection/list";
            return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
        }
        let context = Expr::new(ExprKind::ContextPointer, Type::U64, usage.span);
        Ok(StatementKind::Perform {
            verb: "override",
            helper: helper::OVERRIDE_RETURN,
            operands: vec![context, value],
        })
    }),
};
