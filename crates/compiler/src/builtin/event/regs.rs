//! The built-in `regs`: all registers of the processor at the event.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::lang::diag::Diagnostic;

pub(crate) static REGS: Builtin = Builtin {
    name: "regs",
    numbered: false,
    usage: "regs",
    about: "all registers of the processor at the event, in record(regs)",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        if checker.context.registers.is_empty() {
            return Err(checker.no_registers(usage.span));
        }
        let diagnostic =
            Diagnostic::error(usage.span, "\"regs\" is all registers, which only record() takes");
        Err(checker.report(diagnostic.hint("record(regs) writes them all; reg(\"ax\") is one of them")))
    }),
};
