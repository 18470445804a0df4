//! The built-in `reg`: one register of the processor at the event.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::lang::ast::ExprKind;
use crate::lang::diag::{Diagnostic, did_you_mean};

pub(crate) static REG: Builtin = Builtin {
    name: "reg",
    numbered: false,
    usage: "reg(\"NAME\")",
    about: "a register of the processor at the event, as the kernel calls it: reg(\"ax\")",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(&wanted) = args.first() else {
            return Err(checker.no_registers(usage.span));
        };
        let ExprKind::String(name) = &wanted.kind else {
            let diagnostic = Diagnostic::error(wanted.span, "a register is named by a string");
            return Err(checker.report(diagnostic.maybe_hint(usage.spelling())));
        };
        let context = checker.context;
        if context.registers.is_empty() {
            return Err(checker.no_registers(usage.span));
        }
        let mut known = context.registers.iter();
        let found = known.find(|r| r.name == name || r.aliases.contains(&name.as_str()));
        if let Some(register) = found {
            return checker.register(register, usage.span);
        }
        let names: Vec<&str> = context.registers.iter().map(|r| r.name).collect();
        let message = format!("'{name}' is not a valid register on this architecture");
        let diagnostic = Diagnostic::error(usage.span, message)
            .maybe_hint(did_you_mean(name, names.iter().copied()))
            .hint(format!("there are: {}", names.join(", ")));
        Err(checker.report(diagnostic))
    }),
};
