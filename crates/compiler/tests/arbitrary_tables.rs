//! Arbitrary table files: reading and checking them never panics, spans lie inside the text, and what is accepted compiles.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
mod support;

use kestrel_compiler::check::check;
use kestrel_compiler::check::tree::CheckedProbe;
use kestrel_compiler::check::{globals::Globals, parameters};
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::ast::{Item, Script};
use kestrel_compiler::lang::diag::{Diagnostic, Style, has_errors, render};
use kestrel_compiler::lang::parse_script;
use kestrel_compiler::{Error, compile_hook};
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::LazyLock;
use support::steered::{Chosen, Steered};

static EVENTS: LazyLock<Vec<Context>> = LazyLock::new(|| {
    vec![
        kernel::kprobe(),
        kernel::switch(),
        kernel::kretprobe(),
        kernel::wide(),
    ]
});

/// Declarations of a text, as a reader of table files would put them together.
fn globals(script: &Script) -> (Globals, Vec<Diagnostic>) {
    let mut globals = Globals::default();
    for item in &script.items {
        match item {
            Item::Table(table) => globals.tables.push(table.name.node.clone()),
            Item::Buffer(buffer) => globals.buffers.push(buffer.name.node.clone()),
            _ => {}
        }
    }
    let (parameters, found) = parameters(&script.items);
    globals.parameters.extend(parameters);
    globals.messages = true;
    (globals, found)
}

/// Reads, checks and compiles all of a text; gives how many handlers were accepted.
fn try_all(text: &str) -> usize {
    let (script, mut found) = parse_script(text);
    let (globals, more) = globals(&script);
    found.extend(more);
    let tables = script.items.iter().filter_map(|item| match item {
        Item::Table(table) => Some(table.probes.as_slice()),
        Item::Probe(probe) => Some(std::slice::from_ref(probe)),
        _ => None,
    });
    let probes: Vec<_> = tables.flatten().collect();
    let whole = !has_errors(&found);
    let mut accepted = 0;
    for context in &*EVENTS {
        let mut handlers: Vec<CheckedProbe> = Vec::new();
        for probe in &probes {
            let (checked, more) = check(probe, context, true, &mut globals.clone());
            found.extend(more);
            handlers.extend(checked.filter(|_| whole));
        }
        accepted += handlers.len();
        compile(&handlers, context, &globals);
    }
    for diagnostic in &found {
        assert!(
            diagnostic.span.end as usize <= text.len().max(2),
            "{diagnostic:?}"
        );
    }
    render(&found, "x", text, Style { colour: true });
    accepted
}

/// Every accepted text becomes a program, or does not fit; nothing is malformed, and no name is unknown.
fn compile(handlers: &[CheckedProbe], context: &Context, globals: &Globals) {
    let sink = Steered {
        chosen: Chosen::ByTable,
        tables: globals.tables.clone(),
        buffers: globals.buffers.clone(),
        parameters: globals.parameters.iter().map(|p| p.name.clone()).collect(),
    };
    for handler in handlers {
        match compile_hook(&[handler], context, &sink) {
            Err(error @ (Error::Malformed { .. } | Error::Sink { .. })) => panic!("{error:?}"),
            Ok(program) => assert_eq!(program.layouts.len(), handler.records().count()),
            Err(_) => {}
        }
    }
}

/// Names that are declared in some texts and used in others.
fn name() -> impl Strategy<Value = &'static str> {
    select(
        &[
            "main", "target", "normal", "detail", "x", "pid", "to", "ä", "9", "",
        ][..],
    )
}

fn value() -> impl Strategy<Value = &'static str> {
    select(
        &[
            "pid",
            "comm",
            "x",
            "main",
            "args",
            "10ms",
            "4M",
            "-1",
            "true",
            "kstack(3)",
            "arg0 + 1",
            "\"text\"",
            "to(\"main\")",
            "$v",
            "v = cpu",
            "to(main)",
            "args.count",
            "x > 5",
            "",
        ][..],
    )
}

fn statement() -> impl Strategy<Value = String> {
    let one = || name().prop_map(|name| format!("\"{name}\""));
    prop_oneof![
        (
            select(&["use_table", "use_buffer", "freeze", "thaw", "reset", "to"][..]),
            one()
        )
            .prop_map(|(action, name)| format!("{action}({name})")),
        (
            select(&["record", "notify", "exec", "to", "freeze", "use_table"][..]),
            prop::collection::vec(value(), 0..4)
        )
            .prop_map(|(action, values)| format!("{action}({})", values.join(", "))),
        (select(&["notify", "exec", "to"][..]), one(), value())
            .prop_map(|(action, name, value)| format!("{action}({name}, {value})")),
        (value(), value()).prop_map(|(a, b)| format!("if ({a}) {{ record({b}) }}")),
        value().prop_map(|value| format!("$v = {value}")),
        select(&["return", "record", "}", "{", "handler \"x.o\"", "record()"][..]).prop_map(str::to_owned),
    ]
}

fn row() -> impl Strategy<Value = String> {
    let block = prop::collection::vec(statement(), 0..5).prop_map(|all| format!("{{ {} }}", all.join("; ")));
    let handler = prop_oneof![
        8 => block,
        1 => select(&["{ }", ";", "handler \"path.o\"", "handler", ""][..]).prop_map(str::to_owned),
    ];
    let event = select(
        &[
            "a:b",
            "sched:*",
            "kprobe:f+3",
            "a:b, c:d,",
            "class:memory",
            "table t",
            "a:",
        ][..],
    );
    let predicate =
        prop_oneof![3 => Just(String::new()), 1 => value().prop_map(|value| format!("/{value}/"))];
    (event, predicate, handler)
        .prop_map(|(event, predicate, handler)| format!("{event} {predicate} {handler}\n"))
}

fn item() -> impl Strategy<Value = String> {
    prop_oneof![
        (name(), value()).prop_map(|(name, value)| format!("buffer {name} {{ size = {value} }}\n")),
        (name(), value()).prop_map(|(name, value)| format!("param {name} = {value}\n")),
        (name(), prop::collection::vec(row(), 0..4))
            .prop_map(|(name, rows)| format!("table {name} {{\n{}}}\n", rows.concat())),
        (name(), name(), prop::collection::vec(row(), 0..3))
            .prop_map(|(name, parent, rows)| format!("table {name} : {parent} {{ {} }}\n", rows.concat())),
        row(),
        select(
            &[
                "// comment\n",
                "/* comment */",
                "# comment\n",
                "}",
                "config = { x = 1 }"
            ][..]
        )
        .prop_map(str::to_owned),
    ]
}

/// Statements of which every one is right on every event.
fn right() -> impl Strategy<Value = String> {
    let value = || {
        select(
            &[
                "pid",
                "comm",
                "x",
                "cpu + x",
                "nsecs / (x - 5)",
                "loud",
                "kstack(3)",
                "tid",
            ][..],
        )
    };
    let number = || {
        select(
            &[
                "pid", "x", "x * 2", "loud", "cpu - x", "!loud", "pid > x", "elapsed",
            ][..],
        )
    };
    let buffer = || select(&["main", "target"][..]);
    let values = prop::collection::vec(value(), 1..4).prop_map(|all| all.join(", "));
    let simple = prop_oneof![
        (select(&["use_buffer", "freeze", "thaw", "reset"][..]), buffer())
            .prop_map(|(action, name)| format!("{action}(\"{name}\")")),
        select(&["normal", "detail"][..]).prop_map(|name| format!("use_table(\"{name}\")")),
        (
            select(
                &[
                    "to(\"target\"",
                    "notify(\"text\"",
                    "exec(\"command\"",
                    "record(cgroup"
                ][..]
            ),
            values
        )
            .prop_map(|(call, values)| format!("{call}, {values})")),
        (number(), buffer()).prop_map(|(value, name)| format!("record({value}, to(\"{name}\"))")),
        number().prop_map(|value| format!("$v{} = {value}", value.len())),
        Just("exec(\"command\")".to_owned()),
        Just("return".to_owned()),
    ];
    simple.prop_recursive(2, 8, 2, move |inner| {
        (number(), inner.clone(), inner)
            .prop_map(|(c, a, b)| format!("if ({c}) {{ {a}; {b} }} else {{ {b} }}"))
    })
}

/// Declarations of the names mostly used.
const DECLARED: &str = "buffer main { size = 4M } buffer target { } table normal { } table detail { } param x = 10ms; param loud = false\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn files_made_of_pieces(items in prop::collection::vec(item(), 0..8)) {
        try_all(&items.concat());
        try_all(&format!("{DECLARED}{}", items.concat()));
    }

    #[test]
    fn rows_of_a_whole_file(rows in prop::collection::vec(row(), 0..4)) {
        try_all(&format!("{DECLARED}table t {{\n{}}}", rows.concat()));
    }

    #[test]
    fn right_rows_are_accepted(rows in prop::collection::vec(prop::collection::vec(right(), 0..5), 1..4)) {
        let rows: String = rows.iter().map(|all| format!("a:b /x > pid/ {{ {} }}\n", all.join("; "))).collect();
        let text = format!("{DECLARED}table t {{\n{rows}}}");
        prop_assert_eq!(try_all(&text), rows.lines().count() * EVENTS.len(), "{}", text);
    }

    #[test]
    fn files_cut_anywhere(items in prop::collection::vec(item(), 1..5), at in any::<prop::sample::Index>()) {
        let text = format!("{DECLARED}{}", items.concat());
        let cut = (0..=at.index(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        try_all(&text[..cut]);
    }

    #[test]
    fn a_value_of_a_parameter(text in "\\PC*") {
        let (script, _) = parse_script("param a = 1; param b = true; param c = 7u");
        for parameter in parameters(&script.items).0 {
            if let Err(found) = parameter.parse(&text) {
                assert!(!found.is_empty(), "{text}");
                render(&found, "x", &text, Style::default());
            }
        }
    }
}

#[test]
fn a_good_file_is_accepted_whole() {
    let text = format!(
        "{DECLARED}table t {{
            a:b {{ record(pid, to(\"target\")) }}
            a:c, d:* /pid > x/ {{ notify(\"text\"); freeze(\"main\"); use_table(\"detail\") }}
            a:d {{ }}
            a:e {{ to(\"main\", cpu) }}
        }}"
    );
    assert_eq!(try_all(&text), 4 * EVENTS.len());
}
