//! Names learned from records.

use super::*;
use crate::event::EventId;
use crate::layout::{Base, Layout};

#[test]
fn a_switch_before_an_exec_does_not_give_back_the_old_name() {
    let pid = || FieldType::Integer {
        size: 4,
        signed: true,
        base: Base::Decimal,
    };
    let comm = || FieldType::CharArray { size: 16 };
    let fields = [
        ("prev_comm", comm()),
        ("prev_pid", pid()),
        ("next_comm", comm()),
        ("next_pid", pid()),
    ];
    let layout = Layout::new(fields.map(|(name, ty)| (name.to_owned(), ty)));
    let event = EventClass {
        id: EventId(1),
        name: "sched:sched_switch".to_owned(),
        kind: "tracepoint".to_owned(),
        layout,
        action: None,
        print: None,
    };
    let switch = |prev: (u32, &str), next: (u32, &str)| {
        let mut bytes = vec![0; event.layout.fixed_end() as usize];
        let fields = event.layout.fields();
        for (at, (tid, name)) in [(0, prev), (2, next)] {
            let (name_at, tid_at) = (fields[at].offset() as usize, fields[at + 1].offset() as usize);
            bytes[name_at..name_at + name.len()].copy_from_slice(name.as_bytes());
            bytes[tid_at..tid_at + 4].copy_from_slice(&tid.to_le_bytes());
        }
        bytes
    };
    let switches = [
        (10, switch((5, "w"), (7, "w"))),
        (20, switch((7, "true"), (5, "w"))),
        (30, switch((5, "w"), (7, "true"))),
    ];
    let learned = |learner: &mut Learner, mut processes: Processes| {
        let names = switches.iter().map(|(time_ns, bytes)| {
            let record = Record {
                time_ns: *time_ns,
                cpu: 0,
                pid: 0,
                tid: 0,
                event: &event,
                bytes,
                unwound: None,
                rest: &[],
            };
            learner.learn(&record, &mut processes);
            [5, 7].map(|tid| processes.name(tid, tid).unwrap().to_owned())
        });
        names.collect::<Vec<_>>()
    };
    let mut noting = Learner::noting();
    let seen = learned(&mut noting, Processes::default());
    assert_eq!(seen, [["w", "w"], ["w", "true"], ["w", "true"]]);
    let known = Processes::default().with_changes(noting.changes(&Processes::default()));
    let seen = learned(&mut Learner::default(), known);
    assert_eq!(seen, [["w", "true"], ["w", "true"], ["w", "true"]]);
}

#[test]
fn a_thread_has_its_old_name_in_the_record_of_its_renaming() {
    let number = FieldType::Integer {
        size: 4,
        signed: true,
        base: Base::Decimal,
    };
    let comm = || FieldType::CharArray { size: 16 };
    let fields = [("pid", number), ("oldcomm", comm()), ("newcomm", comm())];
    let event = EventClass {
        id: EventId(1),
        name: RENAME.to_owned(),
        kind: "tracepoint".to_owned(),
        layout: Layout::new(fields.map(|(name, ty)| (name.to_owned(), ty))),
        action: None,
        print: None,
    };
    let other = EventClass {
        id: EventId(2),
        name: "sched:sched_wake_idle_without_ipi".to_owned(),
        kind: "tracepoint".to_owned(),
        layout: Layout::new([]),
        action: None,
        print: None,
    };
    let rename = |old: &str, new: &str| {
        let mut bytes = vec![0; event.layout.fixed_end() as usize];
        for (field, value) in event
            .layout
            .fields()
            .iter()
            .zip([&[7][..], old.as_bytes(), new.as_bytes()])
        {
            let at = field.offset() as usize;
            bytes[at..at + value.len()].copy_from_slice(value);
        }
        bytes
    };
    let (first, second) = (rename("sh", "ls"), rename("ls", "cat"));
    let records = [(&event, &first[..]), (&event, &second[..]), (&other, &[][..])];
    let (mut learner, mut processes) = (Learner::default(), Processes::default());
    let mut versions = Vec::new();
    let names = records.map(|(event, bytes)| {
        let record = Record {
            time_ns: 0,
            cpu: 0,
            pid: 7,
            tid: 7,
            event,
            bytes,
            unwound: None,
            rest: &[],
        };
        learner.learn(&record, &mut processes);
        versions.push(processes.version());
        processes.name(7, 7).unwrap().to_owned()
    });
    assert_eq!(names, ["sh", "ls", "cat"]);
    versions.dedup();
    assert_eq!(versions.len(), 3);
    assert_eq!(processes.to_lines(), b"7 cat\n");
}
