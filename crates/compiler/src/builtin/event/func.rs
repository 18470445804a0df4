//! The built-in `func`: the name of the traced function.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Pointee, Pointer, Type};
use crate::check::value::text_constant;
use kestrel_trace::layout::{EventName, Space};

pub(crate) static FUNC: Builtin = Builtin {
    name: "func",
    numbered: false,
    usage: "func",
    about: "the traced function's name",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        if let Some(function) = &context.function {
            return Ok(text_constant(function, usage.span));
        }
        if !context.members.is_empty() && context.members.iter().all(|m| m.function.is_some()) {
            return Ok(checker.event_number(EventName::Function, usage.span));
        }
        if context.features.func_ip {
            let ty = Type::Pointer(Pointer {
                to: Pointee::Unknown,
                levels: 0,
                space: Space::Kernel,
                trusted: false,
                symbolic: true,
            });
            return Ok(usage.intrinsic(Intrinsic::FunctionAddress, ty));
        }
        Err(checker.error(usage.span, format!("{} is not about one function", context.name)))
    }),
};
