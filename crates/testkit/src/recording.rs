//! A recording made byte by byte, of which every count is known: a server's threads that read and wait, a reader that is woken by them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test's helpers may panic as the test may"
)]

use crate::pages::{Cell, Ring, record, text};
use kestrel_trace::ctf::directory;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::info::{BufferInfo, BufferMode, ClockOffset, TraceInfo, Uuid};
use kestrel_trace::layout::{Base, FieldType, Layout, Space};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::{EventCount, Summary};
use kestrel_trace::symbol::Symbols;
use std::path::Path;

const UUID: Uuid = Uuid(*b"a recording made");
/// Time of the first record, ns.
pub const BEGIN_NS: u64 = 17_000_000_000;
/// Time from one round to the next, ns.
pub(crate) const ROUND_NS: u64 = 10_000_000;
/// Records of each round: two entries, two returns, a wakeup, two switches.
pub const PER_ROUND: u64 = 7;
/// The server's process, whose first thread acts in even rounds and whose second one in odd ones.
pub const SERVER: u32 = 200;
/// The thread that is woken.
pub const READER: u32 = 300;

const READ: u64 = 0;
const FUTEX: u64 = 202;
const US: u64 = 1000;

fn class(id: u16, name: &str, fields: Vec<(&str, FieldType)>) -> EventClass {
    EventClass {
        id: EventId(id),
        name: name.into(),
        kind: "tracepoint".into(),
        layout: Layout::new(fields.into_iter().map(|(name, ty)| (name.to_owned(), ty))),
        action: None,
        print: None,
    }
}

fn events() -> [EventClass; 4] {
    // `TASK_COMM_LEN` of the kernel.
    let comm = || FieldType::CharArray { size: 16 };
    let integer = |size| FieldType::Integer {
        size,
        signed: true,
        base: Base::Decimal,
    };
    let arguments = FieldType::Array {
        element: Box::new(integer(8)),
        count: 6,
    };
    let stack = FieldType::Stack {
        space: Space::Kernel,
        max: 32,
    };
    [
        class(
            1,
            "sched:sched_switch",
            vec![
                ("prev_comm", comm()),
                ("prev_pid", integer(4)),
                ("prev_state", integer(8)),
                ("next_comm", comm()),
                ("next_pid", integer(4)),
                ("kstack", stack),
            ],
        ),
        class(
            2,
            "sched:sched_waking",
            vec![("comm", comm()), ("pid", integer(4)), ("target_cpu", integer(4))],
        ),
        class(
            3,
            "raw_syscalls:sys_enter",
            vec![("id", integer(8)), ("args", arguments)],
        ),
        class(
            4,
            "raw_syscalls:sys_exit",
            vec![("id", integer(8)), ("ret", integer(8))],
        ),
    ]
}

/// Functions of the kernel, by their addresses.
const FUNCTIONS: [(u64, &str); 5] = [
    (0xffff_ffff_8100_0000, "schedule"),
    (0xffff_ffff_8100_1000, "vfs_read"),
    (0xffff_ffff_8100_2000, "futex_wait"),
    (0xffff_ffff_8100_3000, "do_syscall_64"),
    (0xffff_ffff_8100_4000, "do_idle"),
];

/// A stack of functions, the innermost first.
fn stack(names: &[&str]) -> Cell {
    let address = |name: &&str| FUNCTIONS.iter().find(|(_, it)| it == name).unwrap().0 + 0x10;
    Cell::A(names.iter().map(address).collect())
}

/// Writes a recording of so many rounds, packed where a level is given, of which `lost` events were lost.
///
/// In each round the server reads, wakes the reader, is switched out inside `vfs_read` (every third round: inside `futex_wait`), and its call returns 4 ms after
/// its entry, in every tenth round with an error. The reader enters `futex`, runs 30 µs after it is woken, and returns 7 ms after its entry.
pub fn write(path: &Path, rounds: u64, level: Option<u8>, lost: u64) {
    let [switch, waking, enter, exit] = events();
    let info = TraceInfo {
        uuid: UUID,
        clock: ClockOffset {
            seconds: 1_763_650_000,
            nanoseconds: 0,
        },
        hostname: "testhost".into(),
        kernel_release: "6.12.0".into(),
        machine: "x86_64".into(),
        tracer_version: "0.1.0".into(),
        command: "kestrel record -g -a".into(),
        session: String::new(),
        boot: String::new(),
        buffers: vec![BufferInfo {
            number: 0,
            name: "main".into(),
            mode: BufferMode::Discard,
            bytes_per_cpu: 4 << 20,
        }],
        events: events().to_vec(),
    };
    let mut writer = directory::create_packed(path, info, false, level).unwrap();
    let mut rings = [Ring::new(UUID, 0, 0), Ring::new(UUID, 0, 1)];
    let entered = |id: u64| [Cell::U(id), Cell::A(vec![3, 0x1000, 4096, 0, 0, 0])];
    for round in 0..rounds {
        let at = BEGIN_NS + round * ROUND_NS;
        let (tid, name) = match round % 2 {
            0 => (SERVER, "server"),
            _ => (SERVER + 1, "server-2"),
        };
        let inside = if round % 3 == 2 { "futex_wait" } else { "vfs_read" };
        let ret = if round % 10 == 9 {
            (-11_i64).cast_unsigned()
        } else {
            4096
        };
        let switched = |from: (&str, u32), state, to: (&str, u32), frames| {
            [
                text(from.0),
                Cell::U(from.1.into()),
                Cell::U(state),
                text(to.0),
                Cell::U(to.1.into()),
                frames,
            ]
        };
        let idle = ("swapper/0", 0);
        let out = switched(
            (name, tid),
            1,
            idle,
            stack(&["schedule", inside, "do_syscall_64"]),
        );
        let runs = switched(
            ("swapper/1", 0),
            0,
            ("reader", READER),
            stack(&["schedule", "do_idle"]),
        );
        let woken = [text("reader"), Cell::U(READER.into()), Cell::U(1)];
        let mut push = |cpu: usize, after: u64, event: &EventClass, (pid, tid), cells: &[Cell]| {
            rings[cpu].push(at + after, &record(event, at + after, pid, tid, cells));
        };
        let server = (SERVER, tid);
        push(0, 0, &enter, server, &entered(READ));
        push(1, 10, &enter, (READER, READER), &entered(FUTEX));
        push(0, 1000 * US, &waking, server, &woken);
        push(1, 1030 * US, &switch, (0, 0), &runs);
        push(0, 2000 * US, &switch, server, &out);
        push(0, 4000 * US, &exit, server, &[Cell::U(READ), Cell::U(ret)]);
        push(
            1,
            7000 * US + 10,
            &exit,
            (READER, READER),
            &[Cell::U(FUTEX), Cell::U(0)],
        );
        // Whole pages are written as they come, so that memory does not grow with the rounds; the last one is still being filled.
        if round % 1000 == 999 {
            for (cpu, ring) in (0..).zip(&mut rings) {
                let open = ring.pages.pop();
                writer.append(0, cpu, &ring.bytes()).unwrap();
                ring.pages = open.into_iter().collect();
            }
        }
    }
    for (cpu, ring) in (0..).zip(&mut rings) {
        ring.leave();
        writer.append(0, cpu, &ring.bytes()).unwrap();
    }
    let mut processes = Processes::default();
    for (tid, name) in [(SERVER, "server"), (SERVER + 1, "server-2"), (READER, "reader")] {
        processes.insert(tid, name);
    }
    let symbols = Symbols::new(
        FUNCTIONS
            .iter()
            .map(|(address, name)| (*address, 0x800, *name, None)),
    );
    let count = |event: &EventClass, cpu, recorded, lost| EventCount {
        event: event.name.clone(),
        cpu,
        recorded,
        lost,
        overwritten: 0,
    };
    let mut events = Vec::new();
    for cpu in [0, 1] {
        events.extend([&switch, &enter, &exit].map(|event| count(event, cpu, rounds, 0)));
    }
    events.push(count(&waking, 0, rounds, lost));
    let summary = Summary {
        events,
        ..Summary::default()
    };
    writer.finish(&summary, &symbols, &processes).unwrap();
}
