//! Memory that records hold, to programs: what is kept of one record is read at another, by process and address, and what is not there is counted.

#![allow(clippy::unwrap_used, reason = "a test")]

use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::shape::{PROGRAM_ROUNDS, Shapes};
use kestrel_compiler::lang::parse_events;
use kestrel_replay::reads::reads_memory;
use kestrel_replay::refusal::refused;
use kestrel_replay::{Error, Held, Missing, Replay, event};
use kestrel_trace::calls::{RAW_ENTER, Signature, Signatures};
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
fn classes() -> [EventClass; 10] {
    let args = FieldType::Array {
        element: Box::new(WORD),
        count: 6,
    };
    let text = FieldType::String { max: 60 };
    let memory = FieldType::Bytes { max: 60 };
    [
        class(
            1,
            RAW_ENTER,
            &[
                ("id", WORD),
                ("args", args.clone()),
                ("text0", text.clone()),
                ("mem1", memory.clone()),
                ("text1_1", text.clone()),
                ("text1_2", text.clone()),
            ],
        ),
        class(
            2,
            "raw_syscalls:sys_exit",
            &[("id", WORD), ("ret", WORD), ("mem1", memory.clone())],
        ),
        class(3, "test:later", &[("address", ADDRESS)]),
        class(4, "sched:sched_process_exit", &[]),
        class(5, "sched:sched_process_exec", &[]),
        class(
            6,
            "syscalls:sys_enter_execveat",
            &[
                ("fd", WORD),
                ("filename", ADDRESS),
                ("argv", ADDRESS),
                ("text1", text.clone()),
            ],
        ),
        class(
            7,
            RAW_ENTER,
            &[("id", WORD), ("args", args.clone()), ("text1", text.clone())],
        ),
        class(
            8,
            "syscalls:sys_enter_openat",
            &[
                ("comm", FieldType::CharArray { size: 16 }),
                ("nsecs", WORD),
                ("dfd", WORD),
                ("filename", ADDRESS),
                ("text1", text),
            ],
        ),
        class(
            9,
            RAW_ENTER,
            &[
                ("id", WORD),
                ("args", args),
                ("mem1", memory.clone()),
                ("mem1_18446744073709551615", memory),
            ],
        ),
        class(10, "raw_syscalls:sys_exit", &[("id", WORD), ("ret", WORD)]),
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
    classes: [EventClass; 10],
    out: Vec<String>,
    time_ns: u64,
}

impl Program {
    /// Handlers of `test:later`.
    fn new(handler: &str) -> Self {
        let classes = classes();
        let later = &classes[2];
        let context = event::context(later);
        let (probe, found) = parse_events(&format!("test:later {handler}"));
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
            assert!(reads_memory(&checked));
            assert_eq!(refused(&checked, Some(later), Held::of(&classes)), []);
            // Without such events it is refused.
            assert!(!refused(&checked, Some(later), Held::of(&classes[2..5])).is_empty());
            let mut replay = Replay::new(globals.maps, 0, 0);
            replay.add(&checked, &context, Some(later)).unwrap();
            let mut signatures = Signatures::default();
            let arguments = |names: [&str; 3]| names.map(|name| (name.to_owned(), ADDRESS));
            signatures.insert(
                59,
                Signature::new("execve", arguments(["filename", "argv", "envp"])),
            );
            signatures.insert(READ, Signature::new("read", arguments(["fd", "buf", "count"])));
            signatures.insert(WRITE, Signature::new("write", arguments(["fd", "buf", "count"])));
            signatures.insert(20, Signature::new("writev", arguments(["fd", "vec", "vlen"])));
            signatures.insert(231, Signature::new("exit_group", []));
            let execveat = ["fd", "filename", "argv", "envp", "flags"];
            let execveat = execveat.map(|name| (name.to_owned(), ADDRESS));
            signatures.insert(322, Signature::new("execveat", execveat));
            replay.remember_memory(&classes, signatures);
            return Self {
                replay,
                classes,
                out: Vec::new(),
                time_ns: 1,
            };
        }
        panic!("no types")
    }

    fn record(&mut self, class: usize, pid: u32, values: &[(&str, &[u8])]) {
        let class = &self.classes[class];
        let bytes = bytes(class, values);
        let record = Record {
            time_ns: self.time_ns,
            cpu: 0,
            pid,
            tid: pid,
            event: class,
            bytes: &bytes,
            unwound: None,
            rest: &[],
        };
        self.replay.remember(&record);
        let printed = &mut self.out;
        let each = &mut |_: &mut Replay, written: kestrel_replay::RunOutput| -> Result<(), Error> {
            printed.extend(written.records().map(|record| {
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
        self.out.clear();
        self.record(2, pid, &[("address", &words(&[address]))]);
        self.out.join("\n")
    }
}

const PATH: u64 = 0x7fff_0000_1000;
const ARGV: u64 = 0x7fff_0000_2000;
const FIRST: u64 = 0xc0_0000_0040;
const SECOND: u64 = 0x40_2000;

#[test]
fn memory_of_records_is_found_later_by_process_and_address() {
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
            program.out
        );
    }
    assert_eq!(program.replay.missing(), []);
    // Of another process nothing is known, and null is no memory.
    assert!(!program.later(8, PATH).contains("bin"));
    program.later(7, 0);
    let missing = |all, part| vec![("test:later", Missing { all, part })];
    assert_eq!(program.replay.missing(), missing(1, 0));
    // A buffer that a call fills lies where its entry said, and is no text: its end is not known.
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

/// In the program's own memory, where the first region is shorter.
const BEHIND_ITS_OWN: u64 = 0x4000_0001_8000_0000;

#[test]
fn an_address_outside_user_memory_faults_and_is_not_missing() {
    for handler in [
        r#"{ printf("<%s>", str(args.address)); }"#,
        r#"{ printf("%d", *(uint32 *)uptr(args.address)); }"#,
    ] {
        let mut program = Program::new(handler);
        program.later(7, BEHIND_ITS_OWN);
        assert_eq!(program.replay.missing(), [], "{handler}");
        program.later(7, PATH);
        assert_eq!(program.replay.missing().len(), 1, "{handler}");
    }
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
    assert!(program.later(7, ARGV).contains("513"), "{:?}", program.out);
    assert!(!program.later(7, ARGV + 4).contains("2313"), "{:?}", program.out);
    assert_eq!(
        program.replay.missing(),
        [("test:later", Missing { all: 1, part: 0 })]
    );
}

const READ: u64 = 0;
const WRITE: u64 = 1;
const BUFFER: u64 = 0x7f00_0000_1000;

fn enter(program: &mut Program, number: u64, args: [u64; 6], memory: &[(&str, &[u8])]) {
    let (number, args) = (words(&[number]), words(&args));
    let mut values: Vec<(&str, &[u8])> = vec![("id", &number), ("args", &args)];
    values.extend_from_slice(memory);
    program.record(0, 7, &values);
}

fn leave(program: &mut Program, number: u64, ret: u64, memory: &[u8]) {
    let (number, ret) = (words(&[number]), words(&[ret]));
    program.record(1, 7, &[("id", &number), ("ret", &ret), ("mem1", memory)]);
}

fn write(program: &mut Program, count: u64, memory: &[u8]) {
    enter(program, WRITE, [1, BUFFER, count, 0, 0, 0], &[("mem1", memory)]);
}

#[test]
fn a_buffer_that_could_not_be_read_is_not_read_from_older_memory() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    for unread in [&b""[..], b"(fault)\0"] {
        write(&mut program, 12, b"older memory");
        assert!(program.later(7, BUFFER).contains("older"), "{:?}", program.out);
        assert!(program.later(7, BUFFER + 6).contains("memory"));
        write(&mut program, 12, unread);
        for address in [BUFFER, BUFFER + 6] {
            let printed = program.later(7, address);
            assert!(!printed.contains("memory"), "{unread:?}: {printed}");
        }
    }
    // A length of 0 says nothing, and what is not there at the return was there at the entry.
    write(&mut program, 3, b"new");
    write(&mut program, 0, b"");
    leave(&mut program, WRITE, 3, b"");
    assert!(program.later(7, BUFFER).contains("new"));
    // A buffer that a call fills is other memory, whether it could be read or not.
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    assert!(program.later(7, BUFFER).contains("new"));
    leave(&mut program, READ, 2, b"");
    assert!(!program.later(7, BUFFER).contains("new"), "{:?}", program.out);
}

#[test]
fn a_program_does_not_read_the_memory_of_the_one_before_it() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    let path = |program: &mut Program, text: &[u8]| {
        enter(program, 59, [PATH, 0, 0, 0, 0, 0], &[("text0", text)]);
    };
    path(&mut program, b"/bin/first");
    // It failed, and the process is the same.
    leave(&mut program, 59, (-2_i64).cast_unsigned(), b"");
    assert!(program.later(7, PATH).contains("first"));
    leave(&mut program, 59, 0, b"");
    assert!(!program.later(7, PATH).contains("first"), "{:?}", program.out);
    for end in [3, 4] {
        path(&mut program, b"/bin/two");
        assert!(program.later(7, PATH).contains("two"));
        program.record(end, 8, &[]);
        assert!(program.later(7, PATH).contains("two"));
        program.record(end, 7, &[]);
        assert!(!program.later(7, PATH).contains("two"), "{:?}", program.out);
    }
    path(&mut program, b"/bin/three");
    enter(&mut program, 231, [0; 6], &[]);
    assert!(!program.later(7, PATH).contains("three"), "{:?}", program.out);
}

#[test]
fn a_return_without_its_entry_says_nothing() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    leave(&mut program, READ, 5, b"first");
    leave(&mut program, READ, 5, b"other");
    assert!(program.later(7, BUFFER).contains("first"), "{:?}", program.out);
    // A return may have several records, of which the first need not hold memory.
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    program.record(9, 7, &[("id", &words(&[READ])), ("ret", &words(&[5]))]);
    leave(&mut program, READ, 5, b"again");
    assert!(program.later(7, BUFFER).contains("again"), "{:?}", program.out);
    program.record(9, 7, &[("id", &words(&[READ])), ("ret", &words(&[5]))]);
    leave(&mut program, READ, 5, b"other");
    assert!(program.later(7, BUFFER).contains("again"), "{:?}", program.out);
    // Nor says one behind another call's anything.
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    leave(&mut program, WRITE, 1, b"");
    leave(&mut program, READ, 5, b"other");
    assert!(program.later(7, BUFFER).contains("again"), "{:?}", program.out);
}

#[test]
fn a_return_behind_a_gap_is_not_the_entrys_before_it() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    let other = BUFFER + 0x1000;
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    // Its return and the entry of a read into the other buffer are lost up to the time 5.
    program.time_ns = 6;
    program.replay.set_gap(5);
    leave(&mut program, READ, 5, b"other");
    assert!(!program.later(7, BUFFER).contains("other"), "{:?}", program.out);
    assert_eq!(program.replay.unpaired(), 1);
    // An entry behind the gap is paired.
    enter(&mut program, READ, [0, other, 64, 0, 0, 0], &[]);
    program.time_ns = 7;
    leave(&mut program, READ, 5, b"whole");
    assert!(program.later(7, other).contains("whole"), "{:?}", program.out);
    // The second record of a return may be another return's, too.
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    program.record(9, 7, &[("id", &words(&[READ])), ("ret", &words(&[5]))]);
    program.replay.set_gap(8);
    leave(&mut program, READ, 5, b"other");
    assert!(!program.later(7, BUFFER).contains("other"), "{:?}", program.out);
    assert_eq!(program.replay.unpaired(), 2);
}

#[test]
fn only_returns_with_memory_of_the_calls_that_were_entered_count_as_unpaired() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    program.replay.set_gap(u64::MAX);
    // A call without memory, by a record with room for some and by one without.
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    leave(&mut program, READ, 0, b"");
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    program.record(9, 7, &[("id", &words(&[READ])), ("ret", &words(&[5]))]);
    assert_eq!(program.replay.unpaired(), 0);
    // The memory is in the return's second record, and in a third.
    leave(&mut program, READ, 5, b"bytes");
    leave(&mut program, READ, 5, b"bytes");
    assert_eq!(program.replay.unpaired(), 1);
    // Another call than the one that was entered.
    enter(&mut program, WRITE, [1, BUFFER, 5, 0, 0, 0], &[]);
    leave(&mut program, READ, 5, b"bytes");
    assert_eq!(program.replay.unpaired(), 1);
    assert!(!program.later(7, BUFFER).contains("bytes"), "{:?}", program.out);
}

#[test]
fn bytes_behind_the_recorded_part_of_a_buffer_are_unknown() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    write(&mut program, 12, b"whole buffer");
    // A shorter one: what is behind it is as it was.
    write(&mut program, 5, b"WHOLE");
    assert!(
        program.later(7, BUFFER).contains("WHOLE buffer"),
        "{:?}",
        program.out
    );
    write(&mut program, 10, b"other");
    let printed = program.later(7, BUFFER);
    assert!(
        printed.contains("other") && !printed.contains("buff"),
        "{printed}"
    );
    assert!(program.later(7, BUFFER + 10).contains("er"));
    // The same where a call fills it, up to what it returns.
    write(&mut program, 12, b"whole buffer");
    enter(&mut program, READ, [0, BUFFER, 64, 0, 0, 0], &[]);
    leave(&mut program, READ, 10, b"filled");
    let printed = program.later(7, BUFFER);
    assert!(
        printed.contains("filled") && !printed.contains("buff"),
        "{printed}"
    );
    assert!(program.later(7, BUFFER + 10).contains("er"));
    // A text that was cut goes on with bytes that are not known.
    write(&mut program, 60, &[b'x'; 60]);
    let cut = [[b'y'; 59].as_slice(), &[0]].concat();
    enter(&mut program, 59, [BUFFER - 59, 0, 0, 0, 0, 0], &[("text0", &cut)]);
    let printed = program.later(7, BUFFER - 59);
    assert!(printed.contains("yyy") && !printed.contains('x'), "{printed}");
}

#[test]
fn arguments_have_their_numbers_in_calls_relative_to_a_directory() {
    let address = |program: &mut Program, at| program.later(7, at);
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    // As all calls are recorded: as if the directory were not there.
    enter(
        &mut program,
        322,
        [3, PATH, ARGV, 0, 0, 0],
        &[
            ("text0", b"/bin/ls"),
            ("mem1", &words(&[FIRST, SECOND, 0])),
            ("text1_2", b"-l"),
        ],
    );
    assert!(
        address(&mut program, PATH).contains("/bin/ls"),
        "{:?}",
        program.out
    );
    assert!(address(&mut program, SECOND).contains("-l"), "{:?}", program.out);
    // As programs record their own: by the argument's number.
    program.record(5, 7, &[("filename", &words(&[PATH])), ("text1", b"/bin/own")]);
    assert!(
        address(&mut program, PATH).contains("/bin/own"),
        "{:?}",
        program.out
    );
    let values: &[(&str, &[u8])] = &[
        ("id", &words(&[322])),
        ("args", &words(&[3, PATH, ARGV, 0, 0, 0])),
        ("text1", b"/bin/raw"),
    ];
    program.record(6, 7, values);
    assert!(
        address(&mut program, PATH).contains("/bin/raw"),
        "{:?}",
        program.out
    );
    // Words of the language before the arguments have no number.
    program.record(7, 7, &[("filename", &words(&[PATH])), ("text1", b"/etc/open")]);
    assert!(
        address(&mut program, PATH).contains("/etc/open"),
        "{:?}",
        program.out
    );
}

#[test]
fn names_of_fields_are_any() {
    let mut program = Program::new(r#"{ printf("<%s>", str(args.address)); }"#);
    for number in [20, 322, u64::MAX, 1 << 40] {
        let id = words(&[number]);
        let args = words(&[3, BUFFER, 2, 0, 0, 0]);
        program.record(
            8,
            7,
            &[
                ("id", &id),
                ("args", &args),
                ("mem1", &[1; 60]),
                ("mem1_18446744073709551615", b"far"),
            ],
        );
    }
    program.later(7, BUFFER);
}
