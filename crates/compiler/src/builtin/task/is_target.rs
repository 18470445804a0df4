//! The built-in `is_target`: whether a thread is one of those that are traced.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::lang::diag::Diagnostic;

pub(crate) static IS_TARGET: Builtin = Builtin {
    name: "is_target",
    numbered: false,
    usage: "is_target(tid)",
    about: "whether the thread of this number is one of those that -p or `-- COMMAND` selects",
    kind: BuiltinKind::Value(|checker, usage| {
        let given = usage.positional(checker, 1, 1)?;
        let [thread] = given.as_slice() else {
            return Err(checker.error(usage.span, "is_target() takes one argument"));
        };
        let thread = checker.scalar(thread)?;
        if !checker.globals.targets {
            let message = "no processes are selected that a thread could belong to";
            let hint = "-p PID or `-- COMMAND` selects some, in `record` and `trace`";
            return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
        }
        Ok(Expr::new(
            ExprKind::IsTarget(Box::new(thread)),
            Type::Bool,
            usage.span,
        ))
    }),
};
