//! The built-in `func`: the name of the traced function.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::value::string_constant;
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::EventName;

pub(crate) static FUNC: Builtin = Builtin {
    name: "func",
    numbered: false,
    usage: "func",
    about: "the traced function's name",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        if let Some(function) = &context.function {
            return Ok(string_constant(function, usage.span));
        }
        if !context.members.is_empty() && context.members.iter().all(|m| m.function.is_some()) {
            return Ok(checker.event_number(EventName::Function, usage.span));
        }
        if context.features.func_ip {
            return Ok(checker.function_address(usage.span));
        }
        let kind = context.kind().map_or(context.probe_type(), |kind| kind.name);
        let message = format!("The func builtin can not be used with '{kind}' probes");
        let hint = format!("{} is not about one function", context.name);
        Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)))
    }),
};
