//! Arguments by number (`arg0`) at recorded entries of the kernel's functions, whose records have parameters by name: the types of the recorded kernel map one to the other.

use kestrel_bpf::btf::{Btf, Type};
use kestrel_compiler::context::{Context, Source};
use kestrel_replay::event::unrecorded_argument;
use kestrel_trace::event::EventClass;
use kestrel_trace::event_kind;

/// Adds to a context the arguments that the event's records have as parameters; others are refused by name. A field recorded as `arg0` keeps its name.
pub(super) fn by_number(event: &EventClass, types: &Btf, context: &mut Context) {
    let name = context.function.as_deref();
    let name = name.filter(|_| event_kind::is_function_entry(&event.kind));
    let Some(function) = name.and_then(|name| types.function(name)) else {
        return;
    };
    let mut number = 0;
    for parameter in function.proto.parameters() {
        let size = types.size_of(parameter.ty);
        let words = match (types.resolved(parameter.ty), size) {
            (Type::Int(_) | Type::Ptr(_) | Type::Enum(_), Some(1..=8)) => 1,
            (Type::Struct(_) | Type::Union(_), Some(size @ 1..=16)) => size.div_ceil(8) as usize,
            // A value without bytes is not passed.
            (_, Some(0)) => continue,
            // The value is passed in memory: numbers of the following parameters are not known here.
            _ => break,
        };
        for place in number..number + words {
            let field = context.fields.iter().find(|field| field.name == parameter.name);
            let source = match field.filter(|_| words == 1).map(|field| &field.source) {
                Some(source @ Source::Context { .. }) => source.clone(),
                _ => unrecorded_argument(event, place),
            };
            match context.arguments.get_mut(place) {
                Some(known @ Source::Absent { .. }) => *known = source,
                Some(_) => {}
                None => context.arguments.push(source),
            }
        }
        number += words;
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::Calls;
    use super::super::plan::{RecordedKernel, plan};
    use super::*;
    use crate::plan::ProgramText;
    use kestrel_bpf::btf::write::Builder;
    use kestrel_catalog::catalog::text_of;
    use kestrel_compiler::check::globals::Globals;
    use kestrel_replay::event;
    use kestrel_trace::event::EventId;
    use kestrel_trace::layout::{FieldType, Layout};
    use std::sync::Arc;

    fn types() -> Btf {
        let mut types = Builder::new();
        let int = types.int("int", 4);
        let long = types.int("long", 8);
        let pair = types.structure("pair", &[("a", long), ("b", long)]);
        let char = types.int("char", 1);
        let text = types.pointer(char);
        types.structure("name", &[("hash", long), ("text", text)]);
        types.function("looked_up", int, &[("nd", long), ("pair", pair), ("flags", long)]);
        Btf::parse(types.finish()).unwrap()
    }

    fn word() -> FieldType {
        FieldType::Pointer { symbolic: false }
    }

    fn class(fields: &[&str]) -> EventClass {
        EventClass {
            id: EventId(1),
            name: "kprobe:looked_up".to_owned(),
            kind: "kprobe".to_owned(),
            layout: Layout::new(fields.iter().map(|name| ((*name).to_owned(), word()))),
            action: None,
            print: None,
        }
    }

    fn of(fields: &[&str]) -> Vec<Option<String>> {
        let class = class(fields);
        let mut context = event::context(&class);
        by_number(&class, &types(), &mut context);
        let at = |source: &Source| {
            let field = context.fields.iter().find(|field| field.source == *source);
            field.map(|field| field.name.clone())
        };
        context.arguments.iter().map(at).collect()
    }

    /// The refusal of a program over a recording of `class(["nd"])`; empty where it can be run.
    fn refusal(handler: &str) -> String {
        refusal_of(&format!("kprobe:looked_up {{ {handler} }}"))
    }

    fn refusal_of(text: &str) -> String {
        refusal_over(&[class(&["nd"])], text)
    }

    fn refusal_over(events: &[EventClass], text: &str) -> String {
        let program = ProgramText::read("-e", text, Default::default(), &Default::default()).unwrap();
        let calls = Calls::default();
        let types = Arc::new(types());
        let planned = plan(
            &program,
            (events, &calls),
            &Globals::default(),
            &RecordedKernel {
                types: Some(types),
                tracepoint: &|name| {
                    let fields = ["number", "address"].map(|name| (name.to_owned(), word()));
                    (name == "tracepoint:a:b").then(|| Layout::new(fields))
                },
                has: &|spec| Some(!text_of(spec).ends_with("elsewhere")),
                address: &|_| None,
            },
            (0, 0),
        );
        planned.map_or_else(|error| format!("{error:?}"), |_| String::new())
    }

    #[test]
    fn unrecorded_arguments_are_refused_by_name() {
        assert_eq!(refusal("@[arg0] = count()"), "");
        let other = refusal("@[arg3] = count()");
        assert!(other.contains("not recorded with kprobe:looked_up"), "{other}");
        assert!(other.contains("record(args, arg3)"), "{other}");
        let memory = refusal("@[((struct pair *)arg0)->b] = count()");
        assert!(
            memory.contains("record(args, arg0, mem0 = buf(arg0, 16))"),
            "{memory}"
        );
    }

    #[test]
    fn a_refusal_says_all_that_the_handler_needs_recorded() {
        let cases = [
            ("@[str(arg3)] = count()", "arg3, text3 = str(arg3)"),
            (
                "$name = (struct name *)arg3; print(str($name->text)); @[arg0] = count()",
                "arg0, arg3, mem3 = buf(arg3, 16), arg5 = *(uint64 *)(arg3 + 8), text5 = str(*(uint64 *)(arg3 + 8))",
            ),
            // The return reads kept values.
            (
                "@name[tid] = ((struct name *)arg3)->text",
                "arg3, mem3 = buf(arg3, 16), arg5 = *(uint64 *)(arg3 + 8), text5 = str(*(uint64 *)(arg3 + 8))",
            ),
            (
                "@[kstack, str(arg3), kstack(3)] = count()",
                "arg3, text3 = str(arg3), kstack",
            ),
            // As does another handler, by its members.
            (
                "@skb[tid] = (struct name *)arg3 } kretprobe:looked_up { $kept = @skb[tid]; print($kept.hash); print(buf($kept.text, 16))",
                "arg3, mem3 = buf(arg3, 16), arg5 = *(uint64 *)(arg3 + 8), mem5 = buf(*(uint64 *)(arg3 + 8), 16)",
            ),
            (
                "@skb[tid] = ((struct name *)arg3)->hash } kretprobe:looked_up { print(((struct pair *)@skb[tid])->b)",
                "arg3, mem3 = buf(arg3, 8), arg5 = *(uint64 *)arg3, mem5 = buf(*(uint64 *)arg3, 16)",
            ),
            // The address is known only at run time.
            ("@[str(arg3 + arg0)] = count()", "arg3"),
        ];
        for (handler, values) in cases {
            let hint = refusal(handler);
            assert!(
                hint.contains(&format!("record(args, {values}) }}'")),
                "{handler}: {hint}"
            );
        }
    }

    #[test]
    fn a_refusal_says_what_is_behind_the_fields_of_a_tracepoint_that_was_not_recorded() {
        let hint = refusal_of(
            "tracepoint:a:b { @[kstack, ((struct pair *)args.address)->b, args.number] = count() }",
        );
        let values = "arg5 = (uint64)args.address, mem5 = buf((uint64)args.address, 16), kstack";
        assert!(
            hint.contains(&format!("'tracepoint:a:b {{ record(args, {values}) }}'")),
            "{hint}"
        );
    }

    #[test]
    fn what_a_task_holds_is_recorded_by_its_address() {
        let task = "((struct name *)curtask)->hash";
        let hint = refusal(&format!(
            "@[{task}, str(((struct name *)curtask)->text)] = count()"
        ));
        let values = "arg5 = (uint64)curtask, mem5 = buf((uint64)curtask, 16), arg4 = *(uint64 *)((uint64)curtask + 8), \
                      text4 = str(*(uint64 *)((uint64)curtask + 8)), curtask";
        assert!(hint.contains(&format!("record(args, {values}) }}'")), "{hint}");
        // Arguments of calls have their own numbers.
        let call = EventClass {
            name: "syscalls:sys_enter_x".to_owned(),
            kind: "tracepoint".to_owned(),
            ..class(&["fd"])
        };
        let text = format!("tracepoint:syscalls:sys_enter_x {{ @[{task}] = count() }}");
        let hint = refusal_over(&[call], &text);
        assert!(
            hint.contains("sys_enter_x { record(args, NAME = …) }")
                && hint.contains("read it by that name: args.NAME"),
            "{hint}"
        );
    }

    #[test]
    fn other_clocks_are_refused_with_the_one_that_there_is() {
        for clock in ["boot", "tai", "sw_tai"] {
            let hint = refusal(&format!("@[nsecs({clock})] = count()"));
            assert!(
                hint.contains("nsecs is the clock of the recording"),
                "{clock}: {hint}"
            );
        }
    }

    #[test]
    fn of_alternatives_those_that_are_here_are_advised() {
        let text = "config = { missing_probes = ignore } kprobe:a, kprobe:b_elsewhere { @[arg0] = count() } kprobe:d { @ = count() }";
        let hint = refusal_of(text);
        assert!(hint.contains("kprobe:b_elsewhere was not recorded"), "{hint}");
        let line =
            "record those that are here: kestrel record -e 'kprobe:d' -e 'kprobe:a { record(args, arg0) }'";
        assert!(hint.contains(line), "{hint}");
        // Without that setting each is needed.
        let both = refusal_of("kprobe:a { @ = count() } kprobe:b_elsewhere { @ = count() }");
        assert!(
            both.contains("this kernel does not have it: no recording"),
            "{both}"
        );
        assert!(
            both.contains("kestrel record -e 'kprobe:a'") && !both.contains("record all of it"),
            "{both}"
        );
        assert!(!both.contains("-e 'kprobe:b_elsewhere"), "{both}");
        let none = refusal_of("config = { missing_probes = ignore } kprobe:b_elsewhere { @ = count() }");
        assert!(
            none.contains("kprobe:b_elsewhere") && !none.contains("that are here"),
            "{none}"
        );
    }

    #[test]
    fn parameters_have_the_numbers_of_the_function() {
        let named = |names: [&str; 4]| names.map(|name| (name != "-").then(|| name.to_owned())).to_vec();
        assert_eq!(of(&["nd", "flags"]), named(["nd", "-", "-", "flags"]));
        assert_eq!(of(&["flags"]), named(["-", "-", "-", "flags"]));
        // Fields recorded by number keep their names.
        assert_eq!(of(&["flags", "arg1", "nd"]), named(["nd", "arg1", "-", "flags"]));
        assert_eq!(of(&["arg3", "flags", "arg0"]), named(["arg0", "-", "-", "arg3"]));
    }
}
