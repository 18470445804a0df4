//! Handlers that steer their session, from text to what happened: which handler runs, where its records go, which numbers they bear.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
mod support;

use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::tree::CheckedProbe;
use kestrel_compiler::context::{Context, EventNumber, Selector};
use kestrel_compiler::lang::diag::{Style, render};
use kestrel_compiler::lang::parse_events;
use kestrel_compiler::{Error, compile_hook};
use std::path::Path;
use support::run::{Bench, Row, SELECTED, Seen};
use support::steered::{Chosen, MESSAGES, Steered, word};

/// A sink of the session that [`kernel::session`] declares.
fn sink(chosen: Chosen) -> Steered {
    let Globals {
        tables,
        buffers,
        parameters,
        ..
    } = kernel::session();
    Steered {
        chosen,
        tables,
        buffers,
        parameters: parameters.into_iter().map(|p| p.name).collect(),
    }
}

#[track_caller]
fn handler(text: &str, context: &Context) -> CheckedProbe {
    let text = format!("e:x {text}");
    let (probe, found) = parse_events(&text);
    assert!(found.is_empty(), "{text}: {found:?}");
    let (checked, found) = check(&probe, context, true, &mut kernel::session());
    checked.unwrap_or_else(|| panic!("{}", render(&found, "x", &text, Style::default())))
}

/// A hook of these handlers.
#[track_caller]
fn hook(texts: &[&str], context: &Context, chosen: Chosen) -> Bench {
    let handlers: Vec<CheckedProbe> = texts.iter().map(|text| handler(text, context)).collect();
    let mut bench = Bench::steered(&handlers.iter().collect::<Vec<_>>(), context, &sink(chosen));
    bench.machine.direct_kernel_reads = context.direct_loads;
    bench
}

/// `struct pt_regs` of a read of so many bytes.
fn registers(count: u64) -> [u64; 21] {
    let mut all = [0; 21];
    all[12] = count;
    all
}

/// The parameter at a place of [`kernel::session`].
const THRESHOLD: u32 = word::PARAMETERS;
const LOUD: u32 = word::PARAMETERS + 1;
const MIN: u32 = word::PARAMETERS + 3;

#[test]
fn every_accepted_handler_compiles_alone_and_together_with_the_others() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/control.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let cases = text.split("=== ").skip(1).map(|case| {
        let (title, body) = case.split_once('\n').unwrap();
        let mode = title.split(' ').next().unwrap();
        (mode, body.split("\n---\n").next().unwrap())
    });
    let mut together: Vec<CheckedProbe> = Vec::new();
    let context = kernel::kprobe();
    for (mode, input) in cases {
        hook(&[input], &kernel::by_name(mode), Chosen::ByTable);
        if mode == "kprobe" {
            together.push(handler(input, &context));
        }
    }
    assert!(together.len() > 10);
    let all: Vec<&CheckedProbe> = together.iter().collect();
    let program = compile_hook(&all, &context, &sink(Chosen::ByTable)).unwrap();
    let records: usize = all.iter().map(|probe| probe.records().count()).sum();
    assert_eq!(program.layouts.len(), records);
}

#[test]
fn the_active_table_chooses_and_numbers_go_on_from_handler_to_handler() {
    let context = kernel::kprobe();
    let EventNumber::Constant(first) = context.number else {
        panic!("one event");
    };
    let texts = [
        "{ record(a = arg2); record(b = arg2 + 1) }",
        "/arg2 > 5/ { record(c = arg2, to(\"target\")) }",
        "{ if (arg2 > 5) { notify(\"much\", d = arg2) } else { to(\"main\", e = arg2) } }",
    ];
    let mut bench = hook(&texts, &context, Chosen::ByTable);
    let mut seen = |table: u64, count: u64| -> Vec<(u16, u16, String, i128)> {
        bench.set_word(word::ACTIVE, table).run(&registers(count));
        let one = |row: Row| {
            let [(name, Seen::Number(value))] = row.fields.as_slice() else {
                panic!("{row:?}");
            };
            (row.number - first, row.to, name.clone(), *value)
        };
        bench.rows().into_iter().map(one).collect()
    };
    assert_eq!(seen(0, 9), []);
    assert_eq!(seen(1, 9), [(0, 0, "a".into(), 9), (1, 0, "b".into(), 10)]);
    assert_eq!(seen(2, 9), [(2, 2, "c".into(), 9)]);
    assert_eq!(seen(2, 5), []);
    assert_eq!(seen(3, 9), [(3, MESSAGES, "d".into(), 9)]);
    assert_eq!(seen(3, 5), [(4, 1, "e".into(), 5)]);
    assert_eq!(seen(4, 9), []);
}

#[test]
fn a_table_switched_in_a_handler_is_for_the_next_event() {
    let texts = [
        "{ record(first = arg2); use_table(\"detail\"); record(still = arg2) }",
        "{ record(second = arg2); if (arg2 > threshold) { use_table(\"normal\") } }",
    ];
    let mut bench = hook(&texts, &kernel::kprobe(), Chosen::ByTable);
    bench.set_word(word::ACTIVE, 1).set_word(THRESHOLD, 100);
    let mut names = |count| -> Vec<String> {
        bench.run(&registers(count));
        bench
            .rows()
            .into_iter()
            .map(|row| row.fields[0].0.clone())
            .collect()
    };
    assert_eq!(names(1), ["first", "still"]);
    assert_eq!(names(100), ["second"]);
    assert_eq!(names(101), ["second"]);
    assert_eq!(names(1), ["first", "still"]);
}

#[test]
fn buffers_are_used_frozen_thawed_and_reset() {
    let text = "{
        if (arg2 == 1) { use_buffer(\"target\") }
        if (arg2 == 2) { freeze(\"target\") }
        if (arg2 == 3) { thaw(\"target\") }
        if (arg2 == 4) { reset(\"main\"); reset(\"main\"); reset(\"target\") }
        record(to(\"target\"), arg2);
    }";
    let mut bench = hook(&[text], &kernel::kprobe(), Chosen::ByTable);
    bench.set_word(word::ACTIVE, 1);
    let mut kept = |count| bench.run(&registers(count)).rows().len();
    assert_eq!([kept(1), kept(2), kept(5), kept(3), kept(4)], [1, 0, 0, 1, 1]);
    assert_eq!(bench.word(word::CURRENT), 1);
    assert_eq!(bench.word(word::FROZEN + 1), 0);
    assert_eq!([bench.word(word::RESET), bench.word(word::RESET + 1)], [2, 1]);
}

#[test]
fn parameters_are_read_each_time() {
    let text =
        "/arg2 > threshold/ { if (loud) { record(x = least - 1, threshold, loud) } else { record(arg2) } }";
    let mut bench = hook(&[text], &kernel::kprobe(), Chosen::ByTable);
    bench.set_word(word::ACTIVE, 1).set_word(THRESHOLD, 10);
    assert!(bench.run(&registers(10)).rows().is_empty());
    assert_eq!(bench.run(&registers(11)).row().number("arg2"), 11);
    bench.set_word(THRESHOLD, 1000);
    assert!(bench.run(&registers(11)).rows().is_empty());
    bench.set_word(LOUD, 1).set_word(MIN, -5_i64 as u64);
    let row = bench.run(&registers(1001)).row();
    assert_eq!(
        [row.number("x"), row.number("threshold"), row.number("loud")],
        [-6, 1000, 1]
    );
}

#[test]
fn a_message_carries_the_fields_and_its_kind() {
    let context = kernel::kprobe();
    let mut bench = hook(
        &["{ exec(\"collect\"); notify(\"seen\", comm) }"],
        &context,
        Chosen::ByTable,
    );
    bench.set_word(word::ACTIVE, 1);
    let rows = bench.run(&registers(7)).rows();
    assert_eq!([rows[0].to, rows[1].to], [MESSAGES; 2]);
    assert_eq!(rows[0].number("count"), 7);
    assert_eq!(rows[1].text("comm"), bench.machine.environment.comm);
}

/// Runs the hook of a program that serves many events for one of them.
fn numbers_of_instance(bench: &mut Bench, number: EventNumber, instance: u16) -> Vec<(u16, String)> {
    bench.machine.environment.cookie = instance.into();
    let mut context = registers(7);
    if let (EventNumber::Selected { .. }, Some(map)) = (number, bench.numbers) {
        // The test's set has one wanted event; which one it is, the map says.
        context[12] = 3;
        let place = (instance + 1).to_le_bytes();
        assert_eq!(bench.machine.set_value(map, &3_u32.to_le_bytes(), 0, &place), 0);
    }
    bench.run(&context);
    let rows = bench.rows().into_iter();
    rows.map(|row| (row.number, row.fields[0].0.clone())).collect()
}

/// `kprobe:vfs_read` as one event of a set, distinguished in this way.
fn of_a_set(number: EventNumber) -> Context {
    let mut context = kernel::kprobe();
    context.number = number;
    if matches!(number, EventNumber::Selected { .. }) {
        context.selector = Some(Selector {
            value: "count".to_owned(),
            map: "numbers".to_owned(),
        });
    }
    context
}

#[test]
fn every_instance_has_numbers_of_its_own_for_all_handlers() {
    let texts = ["{ record(a = 1); record(b = 2) }", "{ record(c = 3) }"];
    for number in [
        EventNumber::Cookie { first: 5, stride: 3 },
        EventNumber::Selected { first: 5, stride: 3 },
    ] {
        let mut bench = hook(&texts, &of_a_set(number), Chosen::ByTable);
        let selected = matches!(number, EventNumber::Selected { .. });
        for instance in if selected {
            vec![SELECTED - 1]
        } else {
            vec![0, 1, 2, 76]
        } {
            let base = 5 + instance * 3;
            bench.set_word(word::ACTIVE, 1);
            let both = numbers_of_instance(&mut bench, number, instance);
            assert_eq!(
                both,
                [(base, "a".to_owned()), (base + 1, "b".to_owned())],
                "{number:?}"
            );
            bench.set_word(word::ACTIVE, 2);
            let one = numbers_of_instance(&mut bench, number, instance);
            assert_eq!(one, [(base + 2, "c".to_owned())], "{number:?}");
        }
    }
}

#[test]
fn instances_have_handlers_of_their_own() {
    let texts = ["{ record(a = 1); record(b = 2) }", "{ record(c = 3) }"];
    let sets = vec![vec![0, 2], vec![1, SELECTED - 1]];
    for number in [
        EventNumber::Cookie { first: 5, stride: 3 },
        EventNumber::Selected { first: 5, stride: 3 },
    ] {
        let mut bench = hook(&texts, &of_a_set(number), Chosen::ByInstance(sets.clone()));
        let last = 5 + (SELECTED - 1) * 3;
        let got = numbers_of_instance(&mut bench, number, SELECTED - 1);
        assert_eq!(got, [(last + 2, "c".to_owned())], "{number:?}");
        if matches!(number, EventNumber::Cookie { .. }) {
            let of = |bench: &mut Bench, instance| numbers_of_instance(bench, number, instance);
            assert_eq!(of(&mut bench, 0), [(5, "a".to_owned()), (6, "b".to_owned())]);
            assert_eq!(of(&mut bench, 1), [(10, "c".to_owned())]);
            assert_eq!(of(&mut bench, 2), [(11, "a".to_owned()), (12, "b".to_owned())]);
            assert_eq!(of(&mut bench, 3), []);
        }
        let listing = bench.listing();
        // Which event it is was asked once, for the choice and for the numbers.
        assert!(
            listing.matches("call bpf_get_attach_cookie").count() <= 1,
            "{listing}"
        );
        assert!(
            listing.matches("call bpf_map_lookup_elem").count() <= 1,
            "{listing}"
        );
    }
}

#[test]
fn one_event_asked_for_its_instance_is_the_first() {
    let chosen = Chosen::ByInstance(vec![vec![1], vec![0]]);
    let mut bench = hook(
        &["{ record(a = 1) }", "{ record(b = 2) }"],
        &kernel::kprobe(),
        chosen,
    );
    assert_eq!(bench.run(&registers(1)).row().number("b"), 2);
}

#[test]
fn a_sink_that_cannot_says_so() {
    let context = kernel::kprobe();
    let nothing = Steered {
        chosen: Chosen::ByTable,
        tables: Vec::new(),
        buffers: Vec::new(),
        parameters: Vec::new(),
    };
    for text in [
        "{ use_table(\"normal\") }",
        "{ freeze(\"main\") }",
        "{ record(to(\"main\")) }",
        "/threshold > 1/",
    ] {
        let checked = handler(text, &context);
        let error = compile_hook(&[&checked], &context, &nothing).unwrap_err();
        assert!(matches!(error, Error::Sink { .. }), "{text}: {error}");
        // A sink that knows nothing of sessions.
        let bare = compile_hook(&[&checked], &context, &support::bump::Bump::default());
        assert_eq!(bare.is_err(), !text.contains("record"), "{text}");
    }
}

/// Work that grows faster than the handlers do would not end here: 200 tables with a handler each of their own, all in one program.
#[test]
fn hundreds_of_handlers_of_one_event() {
    let texts: Vec<String> = (0..200)
        .map(|n| format!("/arg2 > {n}/ {{ record(n = arg2 + {n}, comm); if (arg2 == {n} + 1) {{ record(only = arg1, comm, pid) }} }}"))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut bench = hook(&texts, &kernel::kprobe(), Chosen::ByTable);
    for n in [0, 1, 77, 198, 199] {
        bench.set_word(word::ACTIVE, n + 1);
        bench.run(&registers(n));
        assert!(bench.rows().is_empty(), "handler {n}: not more than {n}");
        bench.run(&registers(n + 5));
        assert_eq!(bench.row().number("n"), i128::from(2 * n + 5));
        bench.run(&registers(n + 1));
        let rows = bench.rows();
        let names: Vec<&str> = rows.iter().map(|row| row.fields[0].0.as_str()).collect();
        assert_eq!(names, ["n", "only"], "handler {n}");
    }
}
