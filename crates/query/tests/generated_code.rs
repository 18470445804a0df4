//! Arbitrary expressions over a record's fields: their values are those that generated code, run in the interpreter, gives for the same event as it happens.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "../../compiler/tests/support/mod.rs"]
mod support;

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::context::{Context, EventField, Source, ValueType};
use kestrel_compiler::lang::parse_events;
use kestrel_query::{Background, Measure, Predicate};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::{Base, FieldType, Layout};
use kestrel_trace::record::Record;
use proptest::prelude::*;
use support::run::{Bench, Seen};

/// Names, sizes and signs of the numbers; each begins a word of the context.
const NUMBERS: [(&str, u8, bool); 6] = [
    ("a", 1, true),
    ("b", 2, false),
    ("c", 4, true),
    ("d", 4, false),
    ("e", 8, true),
    ("f", 8, false),
];
/// Bytes of the text behind them.
const TEXT: u32 = 16;

/// The event as it happens.
fn context() -> Context {
    let number = |(index, (name, size, signed)): (usize, &(&str, u8, bool))| EventField {
        name: (*name).to_owned(),
        ty: ValueType::Integer {
            size: *size,
            signed: *signed,
            base: Base::Decimal,
        },
        source: Source::Context {
            offset: index as u32 * 8,
            size: *size,
        },
        recorded: true,
    };
    let mut fields: Vec<EventField> = NUMBERS.iter().enumerate().map(number).collect();
    fields.push(EventField {
        name: "name".to_owned(),
        ty: ValueType::CharArray { size: TEXT },
        source: Source::ContextArray {
            offset: NUMBERS.len() as u32 * 8,
            bytes: TEXT,
        },
        recorded: true,
    });
    Context {
        fields,
        ..support::tree::context()
    }
}

/// The event as it was recorded.
fn event() -> EventClass {
    let number = |(name, size, signed): &(&str, u8, bool)| {
        let ty = FieldType::Integer {
            size: *size,
            signed: *signed,
            base: Base::Decimal,
        };
        ((*name).to_owned(), ty)
    };
    let text = ("name".to_owned(), FieldType::CharArray { size: TEXT });
    EventClass {
        id: EventId(7),
        name: "raw_syscalls:sys_enter".to_owned(),
        kind: "tracepoint".to_owned(),
        layout: Layout::new(NUMBERS.iter().map(number).chain([text])),
        action: None,
        print: None,
    }
}

/// Values of an event.
#[derive(Clone, Debug)]
struct World {
    words: [u64; NUMBERS.len()],
    text: [u8; TEXT as usize],
}

impl World {
    /// The context's bytes.
    fn context(&self) -> Vec<u8> {
        let words = self.words.iter().flat_map(|word| word.to_le_bytes());
        words.chain(self.text).collect()
    }

    /// The record's bytes.
    fn record(&self, event: &EventClass) -> Vec<u8> {
        let mut bytes = vec![0; event.layout.max_size() as usize];
        for (field, word) in event
            .layout
            .fields()
            .iter()
            .zip(self.words.map(u64::to_le_bytes).iter())
        {
            let (at, size) = (field.offset() as usize, field.ty.fixed_size() as usize);
            bytes[at..at + size].copy_from_slice(&word[..size]);
        }
        let text = event.layout.fields().last().unwrap().offset() as usize;
        bytes[text..text + TEXT as usize].copy_from_slice(&self.text);
        bytes
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let word = prop_oneof![
        Just(0),
        Just(u64::MAX),
        0..100u64,
        any::<u64>(),
        any::<u64>().prop_map(|word| word >> 33),
    ];
    let text = prop::sample::select(vec!["", "a", "bash", "bashful", "kworker/0:1"]);
    (prop::array::uniform6(word), text).prop_map(|(words, name)| {
        let mut text = [0; TEXT as usize];
        text[..name.len()].copy_from_slice(name.as_bytes());
        World { words, text }
    })
}

/// Words that stand for a number.
fn leaves() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        4 => prop::sample::select(NUMBERS.to_vec()).prop_map(|(name, ..)| name.to_owned()),
        2 => (0..100u32).prop_map(|number| number.to_string()),
        1 => any::<u32>().prop_map(|number| format!("{number:#x}")),
        1 => Just("pid".to_owned()),
        1 => Just("tid".to_owned()),
    ]
}

/// More operators without parentheses than one tree may have; an operand may be a shorter chain.
fn chains() -> impl Strategy<Value = String> {
    let ops = vec![
        "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "<", "&&", "||",
    ];
    let some = || {
        prop_oneof![
            Just(ops.clone()),
            Just(vec!["+"]),
            Just(vec!["+", "-", "*"]),
            Just(vec!["==", "||"])
        ]
    };
    let chain = |ops: Vec<&'static str>, least: usize, most: usize| {
        let link = (prop::sample::select(ops), leaves()).prop_map(|(op, leaf)| format!(" {op} {leaf}"));
        let links = prop::collection::vec(link, least..most);
        (leaves(), links).prop_map(|(first, links)| first + &links.concat())
    };
    let whole = some().prop_flat_map(move |ops| chain(ops, 95, 330));
    let inner = some().prop_flat_map(move |ops| chain(ops, 3, 12));
    (whole, inner, any::<bool>()).prop_map(|(whole, inner, nested)| match nested {
        true => whole.replacen("pid", &format!("({inner})"), 2),
        false => whole,
    })
}

/// Numbers as people write them.
fn expressions() -> impl Strategy<Value = String> {
    leaves().prop_recursive(5, 40, 3, |inner| {
        let numeric = vec!["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"];
        let truth = vec!["==", "!=", "<", "<=", ">", ">=", "&&", "||"];
        let two = (inner.clone(), prop::sample::select([numeric, truth].concat()), inner.clone());
        prop_oneof![
            6 => two.prop_map(|(left, op, right)| format!("({left} {op} {right})")),
            1 => (prop::sample::select(vec!["-", "~", "!"]), inner.clone()).prop_map(|(op, value)| format!("({op}{value})")),
            1 => (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => prop::sample::select(vec!["name == \"bash\"", "name != \"\"", "name == \"bashful\"", "\"kworker\" == name"])
                .prop_map(|text| format!("({text})")),
        ]
    })
}

/// The text as a handler has it: fields are members of `args`.
fn as_handler(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        if word == "name" || NUMBERS.iter().any(|(name, ..)| *name == word) {
            out.push_str("args.");
        }
        out.push_str(&word);
        out.push(c);
        word.clear();
    }
    out
}

/// The record of generated code, where the expression passes the checker.
fn recorded(text: &str, world: &World) -> Option<u64> {
    let (probe, found) = parse_events(&format!("e:x {{ record(value = {}) }}", as_handler(text)));
    assert!(found.is_empty(), "{text}: {found:?}");
    let context = context();
    let (checked, _) = check(&probe, &context, true, &mut Globals::default());
    let mut bench = Bench::new(&checked?, &context);
    bench.run_bytes(&world.context());
    match bench.row().get("value") {
        Seen::Number(number) => Some(*number as u64),
        other => panic!("{text}: {other:?}"),
    }
}

/// Whether generated code lets the event through.
fn passes(text: &str, world: &World) -> Option<bool> {
    let (probe, found) = parse_events(&format!("e:x /{}/ {{ record(pid) }}", as_handler(text)));
    if !found.is_empty() {
        return None;
    }
    let context = context();
    let (checked, _) = check(&probe, &context, true, &mut Globals::default());
    let mut bench = Bench::new(&checked?, &context);
    bench.run_bytes(&world.context());
    Some(!bench.rows().is_empty())
}

/// The low bytes of a value: what a record keeps of it may be narrower than what was computed with.
fn kept(value: i64, expected: u64) -> bool {
    let value = value.cast_unsigned();
    [u64::MAX, u64::from(u32::MAX), 0xffff, 0xff].iter().any(|mask| {
        let signed = |value: u64| value & mask == value || !value & !mask == 0;
        value & mask == expected & mask && (*mask == u64::MAX || signed(expected))
    })
}

/// Checks that a text has the value over a record that generated code records, or is refused by both.
fn is_what_generated_code_records(text: &str, world: &World) -> Result<(), TestCaseError> {
    let event = event();
    let bytes = world.record(&event);
    let measured = Measure::new(text, [&event]);
    let Some(expected) = recorded(text, world) else {
        prop_assert!(measured.is_err(), "{}: taken, but not by the compiler", text);
        return Ok(());
    };
    let measure = measured.map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
    // The process and the thread of the interpreter.
    let record = Record {
        time_ns: 0,
        cpu: 0,
        pid: 1200,
        tid: 1234,
        event: &event,
        bytes: &bytes,
        unwound: None,
        rest: &[],
    };
    let value = measure.value(&record, &Background::default()).unwrap();
    prop_assert!(
        kept(value, expected),
        "{}: {:#x}, recorded {:#x}",
        text,
        value,
        expected
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_long_chain_is_what_generated_code_records(text in chains(), world in worlds()) {
        is_what_generated_code_records(&text, &world)?;
    }
}

proptest! {
    #[test]
    fn a_value_equals_that_of_generated_code(text in expressions(), world in worlds()) {
        is_what_generated_code_records(&text, &world)?;
    }

    #[test]
    fn a_predicate_holds_where_generated_code_lets_the_event_through(text in expressions(), world in worlds()) {
        let event = event();
        let bytes = world.record(&event);
        // Slashes end a predicate in the text of an event.
        prop_assume!(!text.contains('/'));
        let Some(expected) = passes(&text, &world) else { return Ok(()) };
        let predicate = Predicate::new(&text, [&event]).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let record = Record { time_ns: 0, cpu: 0, pid: 1200, tid: 1234, event: &event, bytes: &bytes, unwound: None, rest: &[] };
        prop_assert_eq!(predicate.holds(&record, &Default::default(), 0), expected, "{}", text);
    }
}
