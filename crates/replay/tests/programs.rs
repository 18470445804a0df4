//! Programs over records that a test makes up: what they say is what is computed here from the same records.

#![allow(clippy::unwrap_used, reason = "a test")]

use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::shape::{PROGRAM_ROUNDS, Shapes};
use kestrel_compiler::lang::parse_events;
use kestrel_replay::refusal::refused;
use kestrel_replay::{Error, Held, Replay, event};
use kestrel_trace::aggregate;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::{Base, FieldPlace, FieldType, Layout, Space};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An event with a field of each kind that programs read.
fn class() -> EventClass {
    let number = |size, signed| FieldType::Integer {
        size,
        signed,
        base: Base::Decimal,
    };
    let array = FieldType::Array {
        element: Box::new(number(2, false)),
        count: 3,
    };
    let fields = [
        ("n", number(8, false)),
        ("s", number(4, true)),
        ("name", FieldType::CharArray { size: 16 }),
        ("path", FieldType::String { max: 60 }),
        ("data", FieldType::Bytes { max: 60 }),
        ("other", FieldType::String { max: 60 }),
        ("some", array),
        (
            "kstack",
            FieldType::Stack {
                space: Space::Kernel,
                max: 8,
            },
        ),
    ];
    EventClass {
        id: EventId(3),
        name: "test:event".to_owned(),
        kind: "tracepoint".to_owned(),
        layout: Layout::new(fields.map(|(name, ty)| (name.to_owned(), ty))),
        action: None,
        print: None,
    }
}

#[derive(Clone, Debug)]
struct Made {
    n: u64,
    s: i32,
    name: String,
    path: String,
    data: Vec<u8>,
    other: String,
    frames: Vec<u64>,
    tid: u32,
}

impl Made {
    /// The bytes as a program in a kernel would have left them.
    fn bytes(&self, class: &EventClass) -> Vec<u8> {
        let mut bytes = vec![0; class.layout.fixed_end() as usize];
        let mut put = |name: &str, value: &[u8]| {
            let field = class
                .layout
                .fields()
                .iter()
                .find(|field| field.name == name)
                .unwrap();
            let (FieldPlace::Fixed { offset } | FieldPlace::Tail { count_offset: offset }) = field.place;
            bytes[offset as usize..][..value.len()].copy_from_slice(value);
        };
        put("n", &self.n.to_le_bytes());
        put("s", &self.s.to_le_bytes());
        put("name", self.name.as_bytes());
        put("some", &[1, 0, 2, 0, 3, 0]);
        put("path", &(self.path.len() as u16).to_le_bytes());
        put("data", &(self.data.len() as u16).to_le_bytes());
        put("other", &(self.other.len() as u16).to_le_bytes());
        put("kstack", &(self.frames.len() as u16).to_le_bytes());
        for field in class.layout.tail() {
            match field.name.as_str() {
                "path" => bytes.extend(self.path.as_bytes()),
                "data" => bytes.extend(&self.data),
                "other" => bytes.extend(self.other.as_bytes()),
                _ => bytes.extend(self.frames.iter().flat_map(|frame| frame.to_le_bytes())),
            }
        }
        bytes
    }
}

/// Runs a handler over records; gives the program with what its maps hold.
fn ran(handler: &str, records: &[Made]) -> Result<Replay, Error> {
    let class = class();
    let context = event::context(&class);
    let (probe, found) = parse_events(&format!("test:event {handler}"));
    assert!(found.is_empty(), "{found:?}");
    let mut shapes = Shapes::of_program();
    for _ in 0..PROGRAM_ROUNDS {
        let mut globals = Globals {
            infers_types: true,
            shapes: shapes.clone(),
            ..Globals::default()
        };
        let (checked, found) = check(&probe, &context, false, &mut globals);
        if let Some(next) = shapes.next(globals.shapes.clone()) {
            shapes = next;
            continue;
        }
        let checked = checked.unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(refused(&checked, Some(&class), Held::default()), []);
        let mut replay = Replay::new(globals.maps, 0, 0);
        replay.add(&checked, &context, Some(&class))?;
        for (time_ns, made) in (100..).zip(records) {
            let bytes = made.bytes(&class);
            let record = Record {
                time_ns,
                cpu: 1,
                pid: 7,
                tid: made.tid,
                event: &class,
                bytes: &bytes,
                unwound: None,
                rest: &[],
            };
            replay.record(&record, &Processes::default(), &mut |_, _| Ok::<(), Error>(()))?;
        }
        return Ok(replay);
    }
    panic!("what its maps hold is not found");
}

fn shown(replay: &Replay, map: &str) -> String {
    let snapshot = replay.snapshot(map, None, None, 0).unwrap();
    aggregate::text(&snapshot, &Symbols::default())
}

fn made() -> impl Strategy<Value = Made> {
    let word = prop_oneof![Just("a"), Just("bc"), Just("")];
    (
        0..5u64,
        -3..3i32,
        word.clone(),
        word,
        "[a-c]{0,3}",
        0..3usize,
        1..4u32,
    )
        .prop_map(|(n, s, name, other, path, frames, tid)| Made {
            n,
            s,
            name: name.to_owned(),
            data: Vec::new(),
            path,
            other: other.to_owned(),
            frames: (1..=frames as u64).map(|frame| frame * 0x1000).collect(),
            tid,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Counts, sums and least values by keys of all kinds.
    #[test]
    fn maps_hold_the_counts(records in proptest::collection::vec(made(), 0..60)) {
        let replay = ran(
            "/args.s != 2/ { @c[args.name, str(args.path), tid] = count(); @sum[str(args.other)] = sum(args.s); @n += args.n * args.some[1]; }",
            &records,
        ).unwrap();
        let wanted = records.iter().filter(|made| made.s != 2);
        let (mut counts, mut sums, mut all) = (BTreeMap::new(), BTreeMap::new(), None);
        for made in wanted {
            *counts.entry((&made.name, &made.path, made.tid)).or_insert(0) += 1;
            *sums.entry(&made.other).or_insert(0) += made.s;
            *all.get_or_insert(0) += made.n * 2;
        }
        let lines = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let mut wanted: Vec<String> = counts.iter().map(|((a, b, c), n)| format!("@c[{a}, {b}, {c}]: {n}")).collect();
        wanted.sort();
        prop_assert_eq!(lines(shown(&replay, "c")), wanted);
        let mut wanted: Vec<String> = sums.iter().map(|(key, sum)| format!("@sum[{key}]: {sum}")).collect();
        wanted.sort();
        prop_assert_eq!(lines(shown(&replay, "sum")), wanted);
        // A map that nothing was written to is not shown.
        prop_assert_eq!(shown(&replay, "n"), all.map_or(String::new(), |all| format!("@n: {all}\n")));
    }

    /// Pairs through maps, loops over maps, keys that go and come.
    #[test]
    fn keys_go_and_come(records in proptest::collection::vec(made(), 0..60)) {
        let replay = ran(
            "{ if (args.s < 0) { @open[tid] = args.n; } else { if (has_key(@open, tid)) { @closed = sum(@open[tid]); delete(@open, tid); } }
               $all = 0; for ($kv : @open) { $all += $kv.1 + 1; } @last = $all; }",
            &records,
        ).unwrap();
        let (mut open, mut closed) = (BTreeMap::new(), 0);
        for made in &records {
            match made.s < 0 {
                true => { open.insert(made.tid, made.n); }
                false => closed += open.remove(&made.tid).unwrap_or(0),
            }
        }
        let sum: u64 = open.values().map(|n| n + 1).sum();
        let last = if records.is_empty() { String::new() } else { format!("@last: {sum}\n") };
        prop_assert_eq!(shown(&replay, "last"), last);
        if closed > 0 {
            prop_assert_eq!(shown(&replay, "closed"), format!("@closed: {closed}\n"));
        }
    }

    /// A record may have any bytes: a file can be damaged.
    #[test]
    fn any_bytes_are_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let class = class();
        let mut replay = ran("{ @[str(args.path), args.name, kstack(2), args.some[2]] = count(); @t = args.other; @d = args.data; }", &[]).unwrap();
        let record = Record { time_ns: 1, cpu: 0, pid: 1, tid: 1, event: &class, bytes: &bytes, unwound: None, rest: &[] };
        let outcome = replay.record(&record, &Processes::default(), &mut |_, _| Ok::<(), Error>(()));
        // A record that is too short to have its fields is outside of the memory that there is.
        if let Err(error) = outcome {
            prop_assert!(matches!(error, Error::Outside { .. }), "{error}");
        }
    }
}

#[test]
fn stacks_are_keys() {
    let one = |frames: &[u64]| Made {
        n: 0,
        s: 0,
        name: "a".to_owned(),
        path: String::new(),
        data: Vec::new(),
        other: String::new(),
        frames: frames.to_vec(),
        tid: 1,
    };
    let records = [one(&[0x10, 0x20]), one(&[0x10, 0x20, 0x30]), one(&[0x40])];
    let replay = ran("{ @[kstack(2)] = count(); @whole[kstack] = count(); }", &records).unwrap();
    assert_eq!(
        shown(&replay, ""),
        "@[\n        0x40\n]: 1\n@[\n        0x10\n        0x20\n]: 2\n"
    );
    assert_eq!(shown(&replay, "whole").matches("]: 1\n").count(), 3);
}

#[test]
fn memory_is_a_value_of_as_many_bytes_as_were_recorded() {
    let one = |data: &[u8]| Made {
        n: 0,
        s: 0,
        name: String::new(),
        path: "behind".to_owned(),
        data: data.to_vec(),
        other: "it".to_owned(),
        frames: Vec::new(),
        tid: 1,
    };
    let records = [one(b"a\0b"), one(b""), one(b"a\0b"), one(b"\xff")];
    let handler =
        "{ @[args.data] = count(); @texts[str(args.path), str(args.other)] = count(); @l = args.data; }";
    let replay = ran(handler, &records).unwrap();
    let shown = |map: &str| shown(&replay, map);
    assert_eq!(shown(""), "@[]: 1\n@[\\xff]: 1\n@[a\\x00b]: 2\n");
    assert_eq!(shown("texts"), "@texts[behind, it]: 4\n");
    assert_eq!(shown("l"), "@l: \\xff\n");
}

#[test]
fn strings_have_lengths_and_are_put_together() {
    let one = |name: &str, path: &str| Made {
        n: 0,
        s: 0,
        name: name.to_owned(),
        path: path.to_owned(),
        data: Vec::new(),
        other: "it".to_owned(),
        frames: Vec::new(),
        tid: 1,
    };
    let handler = "{ $s = str(args.path); @kept = $s; @lengths[strlen($s), strlen(args.name), strlen(str(args.path)), strlen(@kept)] = count(); \
                   @all = str_concat(str(args.path), str_concat(\"-\", str(args.other))); @[str_concat($s, args.name)] = count(); }";
    let replay = ran(
        handler,
        &[one("n", "a/path"), one("", ""), one("sixteen letters", "b")],
    )
    .unwrap();
    let shown = |map: &str| shown(&replay, map);
    assert_eq!(
        shown("lengths"),
        "@lengths[0, 0, 0, 0]: 1\n@lengths[1, 15, 1, 1]: 1\n@lengths[6, 1, 6, 6]: 1\n"
    );
    assert_eq!(shown("all"), "@all: b-it\n");
    assert_eq!(shown(""), "@[]: 1\n@[a/pathn]: 1\n@[bsixteen letters]: 1\n");
}

#[test]
fn programs_without_end_are_stopped() {
    let one = Made {
        n: 0,
        s: 0,
        name: String::new(),
        path: String::new(),
        data: Vec::new(),
        other: String::new(),
        frames: Vec::new(),
        tid: 1,
    };
    let error = ran("{ while (args.n == 0) { @n++; } }", &[one]);
    match error {
        Err(Error::Endless(_)) => {}
        other => panic!("{other:?}"),
    }
}
