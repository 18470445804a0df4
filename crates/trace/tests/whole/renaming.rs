//! Names of threads at the time of each record, from the calls that change them.

use crate::pages::{Cell, Ring, record, text};
use crate::sample::{UUID, class, integer};
use kestrel_trace::calls::{FORK, Renames, Signatures};
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::{Base, FieldType};
use kestrel_trace::process::Processes;

/// A step, in the order of its times.
#[derive(Clone, Copy)]
enum Step {
    /// A thread of a process enters execve of a path, or execveat of a descriptor.
    Execute(u32, u32, &'static str),
    /// A thread that is its process's first one now is back from execve with this.
    Executed(u32, i64),
    /// A thread of a process calls prctl with an option and a name.
    Prctl(u32, u32, u64, &'static str),
    /// The call is back.
    Called(u32, u32),
    /// A thread of a process has a child.
    Birth(u32, u32, u32),
    /// A record of a thread of a process.
    Seen(u32, u32),
}
use Step::*;

/// Room of a path.
const LONGEST: u32 = 24;

fn events() -> [EventClass; 5] {
    let number = || integer(8, true, Base::Decimal);
    let string = || FieldType::String { max: LONGEST };
    let event = |id: u16, name: &str, fields: Vec<(&str, FieldType)>| class(id, "tracepoint", name, fields);
    [
        event(
            1,
            "syscalls:sys_enter_execve",
            vec![("arg0", number()), ("text0", string())],
        ),
        event(2, "syscalls:sys_exit_execve", vec![("ret", number())]),
        event(
            3,
            "syscalls:sys_enter_prctl",
            vec![("arg0", number()), ("text1", string())],
        ),
        event(4, "syscalls:sys_exit_prctl", vec![("ret", number())]),
        event(5, FORK, vec![("child_pid", integer(4, true, Base::Decimal))]),
    ]
}

/// The names that threads have at their records, where the recording's last names are these.
fn names(last: &[(u32, &str)], steps: &[Step]) -> Vec<String> {
    let [execute, executed, prctl, called, birth] = events();
    let mut ring = Ring::new(UUID, 0, 0);
    for (time_ns, step) in (1..).zip(steps) {
        let mut push = |event: &EventClass, pid: u32, tid: u32, cells: &[Cell]| {
            ring.push(time_ns, &record(event, time_ns, pid, tid, cells));
        };
        match *step {
            Execute(pid, tid, path) => push(&execute, pid, tid, &[Cell::U(0x1000), text(path)]),
            Executed(pid, ret) => push(&executed, pid, pid, &[Cell::U(ret.cast_unsigned())]),
            Prctl(pid, tid, option, name) => push(&prctl, pid, tid, &[Cell::U(option), text(name)]),
            Called(pid, tid) => push(&called, pid, tid, &[Cell::U(0)]),
            Birth(pid, tid, child) => push(&birth, pid, tid, &[Cell::U(u64::from(child))]),
            // The return of a call whose entry was not recorded says nothing of names.
            Seen(pid, tid) => push(&called, pid, tid, &[Cell::U(0)]),
        }
    }
    ring.leave();
    let table = EventTable::new(events().to_vec());
    let mut processes = Processes::default();
    for (tid, name) in last {
        processes.insert(*tid, *name);
    }
    let mut renames = Renames::new(&Signatures::default());
    let packets = ring.pages.iter().map(|page| Packet::parse(page).unwrap());
    let mut seen = Vec::new();
    for packet in packets {
        for record in packet.records(&table) {
            let record = record.unwrap();
            renames.learn(&record, &mut processes);
            seen.push(processes.name(record.tid, record.pid).unwrap_or("?").to_owned());
        }
    }
    seen
}

#[test]
fn a_program_gives_its_process_its_name() {
    let last = [(7, "last"), (8, "thread")];
    let steps = [
        Execute(7, 7, "/bin/first"),
        Executed(7, 0),
        Execute(7, 7, "second"),
        Executed(7, -2),
        Seen(7, 7),
        // Another thread executes: the first one's number goes on.
        Execute(7, 8, "/usr/bin/a-program-of-a-long"),
        Executed(7, 0),
    ];
    let expected = ["last", "first", "first", "first", "first", "thread"];
    assert_eq!(names(&last, &steps)[..6], expected);
    let long = [Execute(7, 8, "/a-name-of-a-program"), Executed(7, 0)];
    assert_eq!(names(&last, &long)[1], "a-name-of-a-pro");
}

#[test]
fn a_program_of_an_unknown_name_has_the_last_one() {
    let last = [(7, "last")];
    // A path that was cut fills its room and ends with a NUL.
    for path in ["", "/a/path/that/is/longer-\0"] {
        let steps = [
            Execute(7, 7, "/bin/first"),
            Executed(7, 0),
            Execute(7, 7, path),
            Executed(7, 0),
        ];
        assert_eq!(
            names(&last, &steps),
            ["last", "first", "first", "last"],
            "{path:?}"
        );
    }
}

#[test]
fn a_thread_names_itself() {
    let last = [(7, "process"), (8, "worker")];
    let steps = [
        Prctl(7, 8, 15, "early"),
        Called(7, 8),
        Prctl(7, 8, 16, "ignored"),
        Called(7, 8),
        // Beside it another thread of the process executes a program, which it does not come back from.
        Prctl(7, 7, 15, "main"),
        Execute(7, 8, "/bin/none"),
        Called(7, 7),
        Executed(7, 0),
    ];
    let expected = [
        "worker", "early", "early", "early", "process", "early", "main", "none",
    ];
    assert_eq!(names(&last, &steps), expected);
}

#[test]
fn a_child_process_has_its_parents_name_and_a_thread_its_own() {
    let last = [
        (2, "kthreadd"),
        (7, "shell"),
        (20, "cat"),
        (21, "named-by-another"),
        (22, "kworker/1:0"),
    ];
    let steps = [
        Birth(7, 7, 20),
        Seen(20, 20),
        Birth(20, 20, 23),
        Seen(23, 23),
        Execute(20, 20, "/bin/cat"),
        Executed(20, 0),
        Birth(7, 7, 21),
        Seen(7, 21),
        Birth(2, 2, 22),
        Seen(22, 22),
    ];
    let expected = [
        "shell",
        "shell",
        "shell",
        "shell",
        "shell",
        "cat",
        "shell",
        "named-by-another",
        "kthreadd",
        "kworker/1:0",
    ];
    assert_eq!(names(&last, &steps), expected);
}
