//! The built-in `retval`: what the traced function returned.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::lang::diag::Diagnostic;

pub(crate) static RETVAL: Builtin = Builtin {
    name: "retval",
    numbered: false,
    usage: "retval",
    about: "what the traced function returned",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        if let Some(field) = &context.return_value {
            return checker.event_field(field, usage.span);
        }
        let message = format!("{} has no return value", context.name);
        let hint = context
            .function
            .as_ref()
            .map(|f| format!("trace the return: kretprobe:{f} or fexit:{f}"))
            .or_else(|| {
                let exit = context.name.replacen("sys_enter", "sys_exit", 1);
                (exit != context.name).then(|| format!("{exit} has it, as args.ret"))
            })
            .unwrap_or_else(|| "kretprobe, uretprobe and fexit have one".to_owned());
        Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)))
    }),
};
