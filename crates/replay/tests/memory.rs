//! Memory that records hold, to programs: what is kept of one record is read at another, by process and address, and what is not there is counted.

#![allow(clippy::unwrap_used, reason = "a test")]

use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::shape::{ROUNDS, Shapes};
use kestrel_compiler::lang::parse_events;
use kestrel_replay::refusal::{reads_memory, refused};
use kestrel_replay::{Error, Held, Missing, Replay, event};
use kestrel_trace::calls::{Signature, Signatures};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::{Base, FieldPlace, FieldType, Layout};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;

const WORD: FieldType = FieldType::Integer {
    size: 8,
    signed: true,
    base: Base::Decimal,
};
const ADDRESS: FieldType = FieldType::Pointer { symbolic: false };

fn class(id: u16, name: &str, fields: &[(&str, FieldType)]) -> EventClass {
    EventClass {
        id: EventId(id),
        name: name.to_owned(),
        kind: "tracepoint".to_owned(),
        layout: Layout::new(fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone()))),
        action: None,
        print: None,
    }
}

/// Entries with what the first two arguments point to, their returns, and an event that knows of nothing.
fn classes() -> [EventClass; 3] {
    let args = FieldType::Array {
        element: Box::new(WORD),
        count: 6,
    };
    let text = FieldType::String { max: 60 };
    let memory = FieldType::Bytes { max: 60 };
    [
        class(
            1,
            "raw_syscalls:sys_enter",
            &[
                ("id", WORD),
                ("args", args),
                ("text0", text.clone()),
                ("mem1", memory.clone()),
                ("text1_1", text.clone()),
                ("text1_2", text),
            ],
        ),
        class(
            2,
            "raw_syscalls:sys_exit",
            &[("id", WORD), ("ret", WORD), ("mem1", memory)],
        ),
        class(3, "test:later", &[("address", ADDRESS)]),
    ]
}

/// A record's bytes: numbers in the order of the fixed fields, then the bytes of variable ones.
fn bytes(class: &EventClass, values: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; class.layout.fixed_end() as usize];
    let value = |name: &str| {
        values
            .iter()
            .find(|(own, _)| *own == name)
            .map_or(&[][..], |(_, it)| it)
    };
    for field in class.layout.fields() {
        match field.place {
            FieldPlace::Fixed { offset } => {
                let value = value(&field.name);
                bytes[offset as usize..][..value.len()].copy_from_slice(value);
            }
            FieldPlace::Tail { count_offset } => {
                let count = value(&field.name).len() as u16;
                bytes[count_offset as usize..][..2].copy_from_slice(&count.to_le_bytes());
            }
        }
    }
    for field in class.layout.tail() {
        bytes.extend_from_slice(value(&field.name));
    }
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

struct Program {
    replay: Replay,
    classes: [EventClass; 3],
    said: Vec<String>,
}

impl Program {
    /// Handlers of `test:later`.
    fn new(handler: &str) -> Self {
        let classes = classes();
        let later = &classes[2];
        let context = event::context(later);
        let (probe, found) = parse_events(&format!("test:later {handler}"));
        assert!(found.is_empty(), "{found:?}");
        let mut shapes = Shapes::default();
        for _ in 0..ROUNDS {
            let mut globals = Globals {
                infers_types: true,
                shapes: shapes.clone(),
                ..Globals::default()
            };
            let (checked, found) = check(&probe, &context, false, &mut globals);
            if globals.shapes != shapes {
                shapes = globals.shapes;
                continue;
            }
            let checked = checked.unwrap_or_else(|| panic!("{found:?}"));
            assert!(reads_memory(&checked));
            assert_eq!(refused(&checked, Some(later), Held::of(&classes)), []);
            // Without such events it is refused.
            assert!(!refused(&checked, Some(later), Held::of(&classes[2..])).is_empty());
            let mut replay = Replay::new(globals.maps, 0, 0);
            replay.add(&checked, &context, Some(later)).unwrap();
            let mut signatures = Signatures::default();
            let arguments = |names: [&str; 3]| names.map(|name| (name.to_owned(), ADDRESS));
            signatures.insert(
                59,
                Signature::new("execve", arguments(["filename", "argv", "envp"])),
            );
            signatures.insert(0, Signature::new("read", arguments(["fd", "buf", "count"])));
            replay.remember_memory(&classes, signatures);
            return Self {
                replay,
                classes,
                said: Vec::new(),
            };
        }
        panic!("no types")
    }

    fn record(&mut self, class: usize, pid: u32, values: &[(&str, &[u8])]) {
        let class = &self.classes[class];
        let bytes = bytes(class, values);
        let record = Record {
            time_ns: 1,
            cpu: 0,
            pid,
            tid: pid,
            event: class,
            bytes: &bytes,
            unwound: None,
            rest: &[],
        };
        self.replay.remember(&record);
        let said = &mut self.said;
        let each = &mut |_: &mut Replay, written: kestrel_replay::Written| -> Result<(), Error> {
            said.extend(written.records().map(|record| {
                let values: Vec<String> = record
                    .fields()
                    .map(|(_, value)| match value {
                        kestrel_trace::value::Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
                        value => format!("{:?}", value.as_i64()),
                    })
                    .collect();
                values.join(" ")
            }));
            Ok(())
        };
        self.replay.record(&record, &Processes::default(), each).unwrap();
    }

    fn later(&mut self, pid: u32, address: u64) -> String {
        self.said.clear();
        self.record(2, pid, &[("address", &words(&[address]))]);
        self.said.join("\n")
    }
}

const PATH: u64 = 0x7fff_0000_1000;
const ARGV: u64 = 0x7fff_0000_2000;
const FIRST: u64 = 0xc0_0000_0040;
const SECOND: u64 = 0x40_2000;

#[test]
fn what_records_hold_is_read_later_by_process_and_address() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    let exec = |program: &mut Program, pid| {
        program.record(
            0,
            pid,
            &[
                ("id", &words(&[59])),
                ("args", &words(&[PATH, ARGV, 0, 0, 0, 0])),
                ("text0", b"/bin/ls"),
                ("mem1", &words(&[FIRST, SECOND, 0])),
                ("text1_1", b"ls"),
                ("text1_2", b"-l"),
            ],
        );
    };
    exec(&mut program, 7);
    for (address, text) in [(PATH, "/bin/ls"), (PATH + 5, "ls"), (FIRST, "ls"), (SECOND, "-l")] {
        assert!(
            program.later(7, address).contains(text),
            "{address:#x}: {:?}",
            program.said
        );
    }
    assert_eq!(program.replay.missing(), []);
    // Of another process nothing is known, and null is no memory.
    assert!(!program.later(8, PATH).contains("bin"));
    program.later(7, 0);
    let missing = |all, part| vec![("test:later", Missing { all, part })];
    assert_eq!(program.replay.missing(), missing(1, 0));
    // What a call fills lies where its entry said, and is no text: its end is not known.
    program.record(
        0,
        7,
        &[("id", &words(&[0])), ("args", &words(&[3, FIRST, 5, 0, 0, 0]))],
    );
    program.record(
        1,
        7,
        &[("id", &words(&[0])), ("ret", &words(&[5])), ("mem1", b"ab\0cd")],
    );
    assert!(program.later(7, FIRST).contains("ab"));
    assert!(program.later(7, FIRST + 3).contains("cd"));
    assert_eq!(program.replay.missing(), missing(1, 1));
    // A return of another call says nothing of it.
    program.record(
        1,
        7,
        &[("id", &words(&[59])), ("ret", &words(&[5])), ("mem1", b"xx")],
    );
    assert!(program.later(7, FIRST).contains("ab"));
}

#[test]
fn numbers_are_whole_or_nothing() {
    let mut program = Program::new(r#"{ printf("%d", *(uint32 *)uptr(args.address)); }"#);
    program.record(
        0,
        7,
        &[
            ("id", &words(&[59])),
            ("args", &words(&[PATH, ARGV, 0, 0, 0, 0])),
            ("mem1", &[1, 2, 0, 0, 9, 9]),
        ],
    );
    assert!(program.later(7, ARGV).contains("513"), "{:?}", program.said);
    assert!(!program.later(7, ARGV + 4).contains("2313"), "{:?}", program.said);
    assert_eq!(
        program.replay.missing(),
        [("test:later", Missing { all: 1, part: 0 })]
    );
}
