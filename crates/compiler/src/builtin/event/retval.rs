//! The built-in `retval`: the return value of the traced function.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Pointee, Type};
use crate::context::{Context, EventField, ProgramKind, Source, ValueType};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::btf::TypeId;
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
                Type::Struct(..) | Type::Tuple(_) | Type::Array { .. } => false,
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
        let mut message = ONLY_RETURNS.to_owned();
        if context.name.contains("syscalls:sys_exit") {
            message.push_str(" (try to use args.ret instead)");
        }
        let hint = no_value(context);
        Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)))
    }),
};

const ONLY_RETURNS: &str =
    "The retval builtin can only be used with 'kretprobe' and 'uretprobe' and 'fentry' probes";

/// Where the value is of which an event has none.
fn no_value(context: &Context) -> String {
    let name = &context.name;
    if let Some(place) = name.strip_prefix("uprobe:") {
        return format!("trace the return: uretprobe:{place}");
    }
    match &context.function {
        Some(function) if context.program == ProgramKind::Fexit => {
            format!("{function} is void: it returns nothing")
        }
        Some(function) if returns_nothing(context, function) => {
            format!("{function} is void: its return is kretprobe:{function}, without a value")
        }
        Some(function) => format!("trace the return: kretprobe:{function} or fexit:{function}"),
        None => match name.replacen("sys_enter", "sys_exit", 1) {
            exit if exit != *name => format!("{exit} has it, as args.ret"),
            _ => format!("kretprobe, uretprobe and fexit have one, {name} has none"),
        },
    }
}

/// Whether the kernel's types say that a function is void.
fn returns_nothing(context: &Context, function: &str) -> bool {
    let types = context.types.as_ref();
    let found = types.and_then(|types| types.function(function));
    found.is_some_and(|found| found.proto.ret == TypeId::VOID)
}
