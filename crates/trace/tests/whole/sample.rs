//! One trace that has everything: each kind of field, two buffers, three CPUs.

use crate::pages::{Cell, Ring, record, text};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::info::{BufferInfo, BufferMode, ClockOffset, TraceInfo, Uuid};
use kestrel_trace::layout::{Base, FieldType, Layout, Names, Space};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::{EventCount, Summary};
use kestrel_trace::symbol::Symbols;

pub const UUID: Uuid = Uuid(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10");

pub fn names(all: &[(i64, &str)]) -> Names {
    all.iter()
        .map(|(value, name)| (*value, (*name).to_owned()))
        .collect()
}

pub fn integer(size: u8, signed: bool, base: Base) -> FieldType {
    FieldType::Integer { size, signed, base }
}

pub fn class(id: u16, kind: &str, name: &str, fields: Vec<(&str, FieldType)>) -> EventClass {
    EventClass {
        id: EventId(id),
        name: name.into(),
        kind: kind.into(),
        layout: Layout::new(fields.into_iter().map(|(name, ty)| (name.to_owned(), ty))),
        action: None,
        print: None,
    }
}

/// `sched:sched_switch`, with the mix of widths that puts memory order and reading order apart.
pub fn sched_switch() -> EventClass {
    let comm = || FieldType::CharArray { size: 16 };
    let number = || integer(4, true, Base::Decimal);
    let state = FieldType::Flags {
        size: 8,
        names: names(&[(0, "R"), (1, "S"), (2, "D"), (0x100, "R+")]),
    };
    class(
        1,
        "tracepoint",
        "sched:sched_switch",
        vec![
            ("prev_comm", comm()),
            ("prev_pid", number()),
            ("prev_prio", number()),
            ("prev_state", state),
            ("next_comm", comm()),
            ("next_pid", number()),
            ("next_prio", number()),
        ],
    )
}

/// Every type of field, and names that TSDL cannot hold as they are.
pub fn everything() -> EventClass {
    class(
        7,
        "kprobe",
        "kprobe:every\"thing\\+0x4",
        vec![
            ("string", FieldType::String { max: 64 }),
            ("flag", FieldType::Bool),
            (
                "kstack",
                FieldType::Stack {
                    space: Space::Kernel,
                    max: 32,
                },
            ),
            ("mode", integer(2, false, Base::Octal)),
            ("mask", integer(4, true, Base::Hexadecimal)),
            ("small", integer(1, true, Base::Decimal)),
            ("caller", FieldType::Pointer { symbolic: true }),
            ("buf", FieldType::Pointer { symbolic: false }),
            (
                "event",
                FieldType::Enumeration {
                    size: 4,
                    signed: true,
                    names: names(&[(-1, "none"), (0, "a \"b\"\n"), (2, "two")]),
                },
            ),
            (
                "wide",
                FieldType::Enumeration {
                    size: 8,
                    signed: false,
                    names: names(&[(-1, "all"), (3, "three")]),
                },
            ),
            (
                "empty",
                FieldType::Enumeration {
                    size: 2,
                    signed: false,
                    names: names(&[]),
                },
            ),
            (
                "odd",
                FieldType::Enumeration {
                    size: 1,
                    signed: false,
                    names: names(&[(300, "beyond"), (1, "one")]),
                },
            ),
            (
                "flags",
                FieldType::Flags {
                    size: 2,
                    names: names(&[(1, "O_A, B"), (6, "%=:"), (0x8000, "ö")]),
                },
            ),
            (
                "args",
                FieldType::Array {
                    element: Box::new(integer(8, false, Base::Hexadecimal)),
                    count: 3,
                },
            ),
            (
                "tails",
                FieldType::Array {
                    element: Box::new(FieldType::Pointer { symbolic: true }),
                    count: 2,
                },
            ),
            (
                "lines",
                FieldType::Array {
                    element: Box::new(FieldType::CharArray { size: 3 }),
                    count: 2,
                },
            ),
            (
                "ustack",
                FieldType::Stack {
                    space: Space::User,
                    max: 8,
                },
            ),
            ("name", FieldType::String { max: 255 }),
            ("comm", FieldType::CharArray { size: 5 }),
            ("arg 0", integer(8, true, Base::Decimal)),
            ("arg_0", integer(2, true, Base::Decimal)),
            ("_end", integer(1, false, Base::Decimal)),
            ("_name_length", integer(1, false, Base::Decimal)),
        ],
    )
}

pub fn everything_cells(n: u64) -> Vec<Cell> {
    let frames = |count| Cell::A((0..count).map(|i| 0xffff_ffff_8100_0010 + i * 0x1000).collect());
    vec![
        text(&"abcdefghij"[..n as usize % 11]),
        Cell::U(n % 2),
        frames(n % 4),
        Cell::U(0o644),
        Cell::U(0xffff_fff0),
        Cell::U(0xfe),
        Cell::U(0xffff_ffff_8100_1005),
        Cell::U(0x7fff_0000_1000),
        Cell::U(if n.is_multiple_of(3) { 0xffff_ffff } else { n % 3 }),
        Cell::U(if n.is_multiple_of(2) { u64::MAX } else { 3 }),
        Cell::U(7),
        Cell::U(n % 2),
        Cell::U(0x8007),
        Cell::A(vec![n, 0, u64::MAX]),
        Cell::A(vec![0xffff_ffff_8100_0000, 0x10]),
        Cell::T(b"abcd\0\0".to_vec()),
        Cell::A((0..n % 3).map(|i| 0x5555_0000 + i).collect()),
        text(["/etc/passwd", "", "x\"\\\ny"][n as usize % 3]),
        text("cat"),
        Cell::U(n.wrapping_neg()),
        Cell::U(5),
        Cell::U(6),
        Cell::U(7),
    ]
}

/// An event without fields, and one whose length is no multiple of 8 on its own.
pub fn bare() -> EventClass {
    class(300, "kprobe", "kprobe:do_exit", vec![])
}

pub fn crooked() -> EventClass {
    class(
        301,
        "kprobe",
        "kprobe:crooked",
        vec![("a", integer(1, false, Base::Decimal))],
    )
}

pub fn info() -> TraceInfo {
    let buffer = |number, name: &str, mode| BufferInfo {
        number,
        name: name.into(),
        mode,
        bytes_per_cpu: 4 << 20,
    };
    TraceInfo {
        uuid: UUID,
        clock: ClockOffset {
            seconds: 1_763_650_000,
            nanoseconds: 123_456_789,
        },
        hostname: "test\"host".into(),
        kernel_release: "6.12.0-1-amd64".into(),
        machine: "x86_64".into(),
        tracer_version: "0.1.0".into(),
        command: "kestrel record -e 'sched:*' -- echo \"a\\tb\"".into(),
        session: String::new(),
        boot: String::new(),
        buffers: vec![
            buffer(0, "main", BufferMode::Discard),
            buffer(3, "flight-log", BufferMode::Overwrite),
        ],
        events: vec![sched_switch(), everything(), bare(), crooked()],
    }
}

pub fn symbols() -> Symbols {
    Symbols::new([
        (0xffff_ffff_8100_0000, 0x800, "vfs_read", None),
        (0xffff_ffff_8100_1000, 0x800, "ksys_read", None),
        (0xffff_ffff_8100_2000, 0x800, "ext4_file_read_iter", Some("ext4")),
    ])
}

pub fn processes() -> Processes {
    let mut all = Processes::default();
    all.insert(100, "bash");
    all
}

pub fn summary() -> Summary {
    let count = |cpu, recorded, lost, overwritten| EventCount {
        event: "sched:sched_switch".into(),
        cpu,
        recorded,
        lost,
        overwritten,
    };
    Summary {
        version: "0.1.0".into(),
        command: info().command,
        started_ns: 1_763_650_001_000_000_000,
        duration_ns: 2_500_000_000,
        events: vec![count(0, 400, 0, 0), count(1, 300, 12, 1234)],
        frozen: None,
        missed: None,
        notes: vec!["the traced command was killed by signal 9".into()],
        limits: Vec::new(),
        cut_short: None,
    }
}

/// Records in each stream, in order: `(buffer, cpu)`, ring, and times.
pub struct Stream {
    pub buffer: u32,
    pub cpu: u32,
    pub ring: Ring,
    pub times: Vec<u64>,
}

/// Three streams of `each` records with interleaving times, from about 2 s on; the last page of each stays partial.
pub fn streams(each: u64) -> Vec<Stream> {
    let build = |(index, (buffer, cpu)): (u64, (u32, u32))| {
        let mut ring = Ring::new(UUID, buffer, cpu);
        let mut times = Vec::new();
        for n in 0..each {
            let time = 2_000_000_000 + n * 1_000_000 + index * 250_000 * (n % 3);
            ring.push(time, &one(n, time));
            times.push(time);
        }
        Stream {
            buffer,
            cpu,
            ring,
            times,
        }
    };
    (0..).zip([(0, 0), (0, 1), (3, 1)]).map(build).collect()
}

fn one(n: u64, time: u64) -> Vec<u8> {
    match n % 5 {
        0 => record(&everything(), time, 100, 101, &everything_cells(n)),
        1 => record(&bare(), time, 7, 7, &[]),
        2 => record(&crooked(), time, 8, 9, &[Cell::U(n)]),
        _ => record(
            &sched_switch(),
            time,
            100,
            100,
            &[
                text("bash"),
                Cell::U(100),
                Cell::U(120),
                Cell::U(n % 4),
                text("kworker/0:1"),
                Cell::U(42),
                Cell::U(n),
            ],
        ),
    }
}

/// An event whose fields have words of their own, as a system call among many.
pub fn words() -> EventClass {
    let int = |size, signed| FieldType::Integer {
        size,
        signed,
        base: Base::Decimal,
    };
    EventClass {
        id: EventId(7),
        name: "syscalls:sys_enter_x".into(),
        kind: "tracepoint".into(),
        layout: Layout::words([
            ("__syscall_nr".to_owned(), int(8, true)),
            ("dfd".to_owned(), int(4, true)),
            ("path".to_owned(), FieldType::Pointer { symbolic: false }),
            ("flags".to_owned(), int(2, false)),
        ]),
        action: None,
        print: None,
    }
}
