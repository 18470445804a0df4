//! The built-in `retval`: the return value of the traced function.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Pointee, Type};
use crate::context::{EventField, Source, ValueType};
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::{Base, Space};

pub(crate) static RETVAL: Builtin = Builtin {
    name: "retval",
    numbered: false,
    usage: "retval",
    about: "what the traced function returned",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        if let Some(field) = &context.return_value {
            let value = checker.event_field(field, usage.span)?;
            // As in bpftrace, the return value of a program's function is the register's 64 bits, whatever the debug information says; an address of a struct leads to its members.
            let is_word = match &value.ty {
                Type::Pointer(pointer) => !matches!(pointer.to, Pointee::Btf(_)) || pointer.levels > 0,
                Type::Struct(_) | Type::Tuple(_) | Type::Array { .. } => false,
                _ => matches!(field.source, Source::Register { .. }),
            };
            if !(checker.globals.infers_types && context.space == Space::User && is_word) {
                return Ok(value);
            }
            let word = EventField {
                ty: ValueType::Integer {
                    size: 8,
                    signed: false,
                    base: Base::Decimal,
                },
                ..field.clone()
            };
            return checker.event_field(&word, usage.span);
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
