//! `arg0`, `arg1`, …

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::constant;
use crate::context::{EventField, Source, ValueType};
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::Base;

pub(crate) static ARG: Builtin = Builtin {
    name: "arg",
    numbered: true,
    usage: "arg0 … arg9",
    about: "the event's arguments by number, as integers",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        let count = context.arguments.len();
        let number = usage
            .name
            .get(3..)
            .and_then(|digits| digits.parse::<usize>().ok());
        if let Some(source) = number.and_then(|n| context.arguments.get(n)) {
            // The note of a USDT probe says of each argument whether it is signed.
            let field = context.fields.iter().find(|field| field.name == usage.name);
            let signed =
                field.is_some_and(|field| matches!(field.ty, ValueType::Integer { signed: true, .. }));
            let word = EventField {
                name: usage.name.to_owned(),
                ty: ValueType::Integer {
                    size: 8,
                    signed,
                    base: Base::Decimal,
                },
                source: source.clone(),
                recorded: false,
            };
            return match source {
                // Arguments that are not in registers lie in the stack; those that a recording does not hold are refused by name.
                Source::Expression(_) | Source::Absent { .. } => checker.event_field(&word, usage.span),
                _ => checker.input(source, Type::U64, usage.span),
            };
        }
        let event = &context.name;
        if checker.globals.infers_types && event.starts_with("usdt:") {
            // Probes of one name may have other arguments at another place, or in another build of the program.
            let message = format!("{event} has no {}: it is 0", usage.name);
            checker.report(Diagnostic::warning(usage.span, message));
            return Ok(constant(0, Type::U64, usage.span));
        }
        let (message, hint) = match count {
            0 => {
                let fields = context.fields.iter().filter(|field| field.recorded);
                let fields: Vec<String> = fields.map(|field| format!("args.{}", field.name)).collect();
                let hint = match fields.as_slice() {
                    [] => None,
                    [one] => Some(format!("its field has a name: {one}")),
                    several => Some(format!("its fields have names: {}", several.join(", "))),
                };
                let message = format!(
                    "The {} builtin can only be used with 'kprobes', 'uprobes' and 'usdt' probes",
                    usage.name
                );
                let why = format!("{event} has no arguments by number");
                (message, Some(hint.unwrap_or(why)))
            }
            1 => (
                format!("{event} has no {}", usage.name),
                Some("its only argument is arg0".to_owned()),
            ),
            count => (
                format!("{event} has no {}", usage.name),
                Some(format!("its arguments are arg0 to arg{}", count - 1)),
            ),
        };
        Err(checker.report(Diagnostic::error(usage.span, message).maybe_hint(hint)))
    }),
};
