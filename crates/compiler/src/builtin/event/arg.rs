//! `arg0`, `arg1`, …

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::checker::Checker;
use crate::check::tree::Type;
use crate::check::value::constant;
use crate::context::{EventField, Source, ValueType};
use crate::lang::ast::Span;
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
            beyond(checker, usage.name, number.unwrap_or_default(), usage.span);
            // The note of a USDT probe says of each argument whether it is signed. In scripts all are, as in bpftrace.
            let field = context.fields.iter().find(|field| field.name == usage.name);
            let signed = checker.globals.infers_types && event_is_usdt(&context.name)
                || field.is_some_and(|field| matches!(field.ty, ValueType::Integer { signed: true, .. }));
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
        if checker.globals.infers_types && event_is_usdt(event) {
            // Probes of one name may have other arguments at another place, or in another build of the program.
            let message = format!("{event} has no {}: it is 0", usage.name);
            checker.report(Diagnostic::warning(usage.span, message));
            return Ok(constant(0, Type::I64, usage.span));
        }
        let (message, hint) = match count {
            0 => {
                let fields = context.fields.iter().filter(|field| field.recorded);
                let fields: Vec<String> = fields.map(|field| format!("args.{}", field.name)).collect();
                let hint = match fields.as_slice() {
                    [] => Some("events with arguments are functions and probes of programs (kprobe, uprobe, usdt) and raw tracepoints".to_owned()),
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

fn event_is_usdt(name: &str) -> bool {
    name.starts_with("usdt:")
}

/// Warns of an argument behind the last parameter of a function whose parameters are known.
fn beyond(checker: &mut Checker<'_>, name: &str, number: usize, span: Span) {
    let context = checker.context;
    let Some(count) = context.parameters.filter(|count| number >= *count) else {
        return;
    };
    let function = context.function.as_deref().unwrap_or("the function");
    let (message, hint) = match count {
        0 => (
            format!("{function} has no parameters: {name} is what its register happens to hold"),
            None,
        ),
        1 => (
            format!("{function} has one parameter: {name} is what its register happens to hold"),
            Some("it is arg0".to_owned()),
        ),
        count => (
            format!("{function} has {count} parameters: {name} is what its register happens to hold"),
            Some(format!("they are arg0 to arg{}", count - 1)),
        ),
    };
    checker.report(Diagnostic::warning(span, message).maybe_hint(hint));
}

#[cfg(test)]
mod tests {
    use crate::check::check;
    use crate::check::globals::Globals;
    use crate::context::{Context, EventField, ProgramKind, Source, ValueType};
    use crate::lang::diag::Diagnostic;
    use crate::lang::parse_events;
    use kestrel_trace::layout::Base;

    /// The warnings about a script's probe, which is accepted.
    fn warnings(text: &str, context: &Context) -> Vec<Diagnostic> {
        let (probe, found) = parse_events(text);
        assert!(found.is_empty(), "{found:?}");
        let mut globals = Globals {
            infers_types: true,
            ..Globals::default()
        };
        let (checked, found) = check(&probe, context, true, &mut globals);
        assert!(checked.is_some(), "{found:?}");
        found
    }

    #[test]
    fn arguments_behind_the_last_parameter_are_warned_about() {
        let source = Source::Register { offset: 0 };
        for (parameters, text, expected) in [
            (Some(2), "{ print(arg1); }", ""),
            (
                Some(2),
                "{ print(arg2); }",
                "f has 2 parameters: arg2 is what its register happens to hold",
            ),
            (Some(1), "{ print(arg3); }", "f has one parameter: arg3"),
            (Some(0), "{ print(arg0); }", "f has no parameters: arg0"),
            (None, "{ print(arg5); }", ""),
        ] {
            let context = Context {
                function: Some("f".to_owned()),
                arguments: vec![source.clone(); 6],
                parameters,
                ..Context::new("kprobe:f", ProgramKind::Kprobe)
            };
            let found = warnings(&format!("kprobe:f {text}"), &context);
            let words: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
            let words = words.join("; ");
            assert!(
                words.starts_with(expected) && words.is_empty() == expected.is_empty(),
                "{text}: {words}"
            );
        }
    }

    /// What the note says of `args.arg0` is not what `arg0` is: a division of it is warned of where it has a sign.
    #[test]
    fn arguments_of_usdt_probes_are_signed_whatever_their_notes_say() {
        let field = EventField {
            name: "arg0".to_owned(),
            ty: ValueType::Integer {
                size: 8,
                signed: false,
                base: Base::Decimal,
            },
            source: Source::Register { offset: 0 },
            recorded: true,
        };
        for (event, signed) in [("usdt:f:a:b", true), ("uprobe:f:g", false)] {
            let context = Context {
                fields: vec![field.clone()],
                arguments: vec![Source::Expression("args.arg0".to_owned())],
                ..Context::new(event, ProgramKind::Kprobe)
            };
            let found = warnings(&format!("{event} {{ print(arg0 / 1000); }}"), &context);
            let warned = found
                .iter()
                .any(|found| found.message.starts_with("signed operands"));
            assert_eq!(warned, signed, "{event}: {found:?}");
        }
    }
}
