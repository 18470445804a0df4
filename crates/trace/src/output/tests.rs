//! Sites performed on records that are put together by hand.

use super::{Effect, Form, MapShown, Sites};
use crate::action::Action;
use crate::aggregate::read::Snapshot;
use crate::aggregate::{Aggregation, MapType, ValueKind, function};
use crate::event::{EventClass, EventId};
use crate::layout::{Base, Composite, CompositeKind, FieldType, Layout, Names};
use crate::names::KnownNames;
use crate::record::Record;
use crate::symbol::Symbols;
use std::sync::Arc;

fn integer(size: u8, signed: bool) -> FieldType {
    FieldType::Integer {
        size,
        signed,
        base: Base::Decimal,
    }
}

/// The requests of a site's record whose values are of these types and bytes.
fn performed(verb: &str, text: &str, values: &[(FieldType, Vec<u8>)], form: Form<'_>) -> Option<Effect> {
    let fields = values
        .iter()
        .enumerate()
        .map(|(index, (ty, _))| (format!("value{index}"), ty.clone()));
    let event = EventClass {
        id: EventId(1),
        name: "begin".to_owned(),
        kind: "begin".to_owned(),
        layout: Layout::new(fields),
        action: Some(Action {
            verb: verb.to_owned(),
            text: text.to_owned(),
        }),
        print: None,
    };
    let mut bytes = vec![0; event.layout.fixed_end() as usize];
    for (field, (_, value)) in event.layout.fields().iter().zip(values) {
        let at = field.offset() as usize;
        bytes[at..at + value.len()].copy_from_slice(value);
    }
    let record = Record {
        time_ns: 5_000_000_000,
        cpu: 0,
        pid: 7,
        tid: 7,
        event: &event,
        bytes: &bytes,
        unwound: None,
        rest: &[],
    };
    let names = KnownNames {
        monotonic_offset: 1_700_000_000_000_000_000,
        ..KnownNames::default()
    };
    let symbols = Symbols::default().with_names(Arc::new(names));
    Sites::default().effect(&record, form, &symbols)
}

fn printed(verb: &str, text: &str, values: &[(FieldType, Vec<u8>)], form: Form<'_>) -> String {
    match performed(verb, text, values, form) {
        Some(Effect::Print(bytes) | Effect::Complain(bytes) | Effect::Warn(bytes)) => {
            String::from_utf8(bytes).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> (FieldType, Vec<u8>) {
    (
        FieldType::InlineString { max: 16 },
        [text.as_bytes(), b"\0"].concat(),
    )
}

fn number(number: i64) -> (FieldType, Vec<u8>) {
    (integer(8, true), number.to_le_bytes().to_vec())
}

/// The rows are what bpftrace 0.27.1 prints.
#[test]
fn strings_and_values_are_printed_as_bpftrace_prints_them() {
    let names: Names = [(333, "FOO".to_owned())].into();
    let named = FieldType::Enumeration {
        size: 4,
        signed: false,
        names,
    };
    let member = |name: &str| (name.to_owned(), integer(4, true));
    let record = Composite::new(CompositeKind::Struct, [member("m"), member("n")]);
    let record = FieldType::Composite(Arc::new(record));
    let array = FieldType::Array {
        element: Box::new(FieldType::Array {
            element: Box::new(integer(4, true)),
            count: 2,
        }),
        count: 2,
    };
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let tuple = FieldType::tuple([
        integer(8, true),
        FieldType::CharArray { size: 8 },
        FieldType::tuple([FieldType::Bool, integer(1, true)]),
    ]);
    let nested = [
        &1_i64.to_le_bytes()[..],
        b"a b\0\0\0\0\0",
        &[1, 0xff, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let buffer = [&3_u32.to_le_bytes()[..], b"a\\\x01\0"].concat();
    let rows = [
        ((tuple, nested), "(1, a b, (true, -1))", "[1,\"a b\",[true,-1]]"),
        (
            (record, words(&[2, 3])),
            "{ .m = 2, .n = 3 }",
            "{\"m\": 2, \"n\": 3}",
        ),
        ((array, words(&[5, 6, 7, 8])), "[[5,6],[7,8]]", "[[5,6],[7,8]]"),
        (text("x\ny\"z"), "x\ny\"z", "\"x\\ny\\\"z\""),
        (number(-1), "-1", "-1"),
        (number(i64::MAX), "9223372036854775807", "\"9223372036854775807\""),
        (
            (
                FieldType::Pointer { symbolic: false },
                10_u64.to_le_bytes().to_vec(),
            ),
            "0xa",
            "10",
        ),
        ((named, words(&[333])), "FOO", "333"),
        ((FieldType::Buffer { max: 4 }, buffer), r"a\\x01", "[97,92,1]"),
    ];
    for (value, shown, json) in rows {
        let value = [value];
        assert_eq!(printed("print", "", &value, Form::TEXT), format!("{shown}\n"));
        let line = format!("{{\"type\": \"value\", \"data\": {json}}}\n");
        assert_eq!(printed("print", "", &value, Form::JSON), line);
        let line = format!("{{\"type\": \"map\", \"data\": {{\"@x\": {json}}}}}\n");
        let held = [number(4), value[0].clone()];
        assert_eq!(printed("print_map", "x\none", &held, Form::JSON), line);
        assert_eq!(
            printed("print_map", "x\none", &held, Form::TEXT),
            format!("@x: {shown}\n")
        );
    }
    let format = "test \r \n \t \\ \" bar %d";
    assert_eq!(
        printed("printf", format, &[number(3)], Form::JSON),
        "{\"type\": \"printf\", \"data\": \"test \\r \\n \\t \\\\ \\\" bar 3\"}\n"
    );
    assert_eq!(
        printed("printf", "\x1b[31m%s", &[text("\x1b[0m")], Form::TEXT),
        "\x1b[31m\x1b[0m"
    );
    let careful = Form {
        escaped: true,
        ..Form::TEXT
    };
    assert_eq!(
        printed("printf", "\x1b[2J%s", &[text("\x1b[0m\x1b[2J")], careful),
        "\x1b[2J\x1b[0m\\x1b[2J"
    );
    assert_eq!(
        printed("print", "", &[text("12345678901234567")], Form::TEXT),
        "1234567890123456..\n"
    );
}

#[test]
fn messages_say_where_they_come_from() {
    let text = "stdin:1:32-75\u{1f}%hhx %d";
    let values = [number(0x12ef), number(-2)];
    assert_eq!(
        printed("errorf", text, &values, Form::TEXT),
        "stdin:1:32-75: ERROR: ef -2\n"
    );
    assert_eq!(
        printed("warnf", text, &values, Form::TEXT),
        "stdin:1:32-75: WARNING: ef -2\n"
    );
    assert_eq!(
        printed("errorf", text, &values, Form::JSON),
        "{\"type\": \"errorf\", \"msg\": \"ef -2\", \"filename\": \"stdin\", \"line\": 1, \"col\": 32}\n"
    );
}

#[test]
fn effects_that_print_nothing_are_handed_on() {
    let asked = |verb, text, values: &[_]| performed(verb, text, values, Form::JSON).unwrap();
    assert_eq!(
        asked("print_map", "x", &[number(3), number(5), number(2)]),
        Effect::PrintMap(MapShown {
            name: "x".to_owned(),
            generation: 3,
            top: 5,
            div: 2
        })
    );
    let cleared = Effect::Cleared {
        name: "x".to_owned(),
        generation: 4,
        zeroed: false,
    };
    assert_eq!(asked("cleared", "x", &[number(4)]), cleared);
    assert_eq!(asked("exit", "", &[number(3)]), Effect::Exit { code: 3 });
    assert_eq!(asked("exit", "", &[]), Effect::Exit { code: 0 });
    let path = b"/proc/7/\x1b".to_vec();
    assert_eq!(
        asked("cat", "/proc/%d/%s", &[number(7), text("\x1b")]),
        Effect::Cat { path }
    );
    let command = b"echo 1 2".to_vec();
    assert_eq!(
        asked("system", "echo %d %d", &[number(1), number(2)]),
        Effect::Run { command }
    );
    assert_eq!(performed("notify", "x", &[], Form::TEXT), None);
    assert_eq!(
        Form::JSON.command(b"a b c\n".to_vec()),
        b"{\"type\": \"syscall\", \"data\": \"a b c\\n\"}\n"
    );
    let words = FieldType::Array {
        element: Box::new(FieldType::CharArray { size: 12 }),
        count: 3,
    };
    let values = [(words, b"/bin/echo\0\0\0'A'".to_vec())];
    assert_eq!(printed("join", ",", &values, Form::TEXT), "/bin/echo,'A'\n");
    assert_eq!(
        printed("join", ",", &values, Form::JSON),
        "{\"type\": \"join\", \"data\": \"/bin/echo,'A'\"}\n"
    );
    assert_eq!(printed("time", "%s.%f\n", &[], Form::TEXT), "1700000005.000000\n");
    assert_eq!(
        printed("time", "%s\n", &[], Form::JSON),
        "{\"type\": \"time\", \"data\": \"1700000005\\n\"}\n"
    );
}

#[test]
fn maps_have_their_greatest_values_divided() {
    let ty = |value| MapType {
        name: "a".to_owned(),
        number: 0,
        keys: vec![integer(8, true)],
        value,
        entries: 16,
        evicts: false,
        generations: true,
        marks: false,
        by_event: false,
        first: String::new(),
    };
    let words = |words: &[u64]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let snapshot = |value: ValueKind, rows: &[(u64, &[u64])]| {
        let rows: Vec<_> = rows
            .iter()
            .map(|(key, value)| (words(&[0, *key]), vec![words(value)]))
            .collect();
        let lent = rows
            .iter()
            .map(|(key, values)| (key.clone(), values.iter().map(Vec::as_slice)));
        Snapshot::new(&ty(value), &[], lent)
    };
    let shown = |snapshot: &Snapshot, form: Form<'_>, top, div| {
        String::from_utf8(form.map(snapshot, top, div, &Symbols::default())).unwrap()
    };
    let plain = snapshot(
        ValueKind::Scalar(integer(8, true)),
        &[(1, &[7]), (2, &[3]), (3, &[5]), (4, &[5])],
    );
    assert_eq!(
        shown(&plain, Form::TEXT, 0, 0),
        "@a[2]: 3\n@a[3]: 5\n@a[4]: 5\n@a[1]: 7\n"
    );
    assert_eq!(shown(&plain, Form::TEXT, 2, 2), "@a[4]: 2\n@a[1]: 3\n");
    assert_eq!(
        shown(&plain, Form::JSON, 2, 1),
        "{\"type\": \"map\", \"data\": {\"@a\": {\"4\": 5, \"1\": 7}}}\n"
    );
    let aggregation = |function| ValueKind::Aggregation(Aggregation::new(function, true));
    let averages = snapshot(
        aggregation(function::AVG),
        &[(1, &[1, 10]), (2, &[1, 20]), (3, &[1, 30]), (4, &[1, 40])],
    );
    assert_eq!(
        shown(&averages, Form::JSON, 2, 10),
        "{\"type\": \"stats\", \"data\": {\"@a\": {\"3\": 3, \"4\": 4}}}\n"
    );
    let stats = snapshot(aggregation(function::STATS), &[(1, &[2, 14])]);
    assert_eq!(
        shown(&stats, Form::TEXT, 0, 2),
        "@a[1]: { .count = 2, .average = 3, .total = 14 }\n"
    );
    assert_eq!(
        shown(&stats, Form::JSON, 0, 1),
        "{\"type\": \"stats\", \"data\": {\"@a\": {\"1\": {\"count\": 2, \"average\": 7, \"total\": 14}}}}\n"
    );
    let linear = ValueKind::Aggregation(Aggregation::with(function::LHIST, true, vec![0, 10240, 1024]));
    let linear = snapshot(linear, &[(1, &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])]);
    let bar = "@".repeat(52);
    assert_eq!(
        shown(&linear, Form::TEXT, 0, 2),
        format!("@a[1]:\n[2K, 3K)               4 |{bar}|\n\n")
    );
    let mut powers = vec![0; 65];
    (powers[0], powers[4]) = (4, 2);
    let powers = snapshot(
        ValueKind::Aggregation(Aggregation::with(function::HIST, true, vec![0])),
        &[(1, &powers)],
    );
    let half = "@".repeat(26);
    assert_eq!(
        shown(&powers, Form::TEXT, 0, 2),
        format!(
            "@a[1]:\n(..., 0)               2 |{bar}|\n[0]                    0 |{0:52}|\n[1]                    0 |{0:52}|\n\
             [2, 4)                 0 |{0:52}|\n[4, 8)                 1 |{half:52}|\n\n",
            ""
        )
    );
    assert_eq!(
        shown(&powers, Form::JSON, 0, 1),
        "{\"type\": \"hist\", \"data\": {\"@a\": {\"1\": [{\"max\": -1, \"count\": 4},{\"min\": 0, \"max\": 0, \"count\": 0},\
         {\"min\": 1, \"max\": 1, \"count\": 0},{\"min\": 2, \"max\": 3, \"count\": 0},{\"min\": 4, \"max\": 7, \"count\": 2}]}}}\n"
    );
    let empty = snapshot(aggregation(function::COUNT), &[]);
    assert_eq!(
        (shown(&empty, Form::TEXT, 0, 0), shown(&empty, Form::JSON, 0, 0)),
        (String::new(), String::new())
    );
    assert_eq!(
        (Form::TEXT.attached(1), Form::TEXT.attached(2)),
        ("Attached 1 probe\n".to_owned(), "Attached 2 probes\n".to_owned())
    );
    assert_eq!(
        Form::JSON.attached(1) + &Form::JSON.lost(4),
        "{\"type\": \"attached_probes\", \"count\": 1, \"data\": {\"probes\": 1}}\n\
         {\"type\": \"lost_events\", \"count\": 4, \"data\": {\"events\": 4}}\n"
    );
}
