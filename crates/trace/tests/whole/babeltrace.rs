//! babeltrace2 reads what we write: the same events and values, without a word on stderr. Skipped where it is not installed.

use crate::pages::{Cell, Ring, record};
use crate::sample;
use crate::writing::{sealed, write};
use kestrel_trace::ctf::directory;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::export::{Export, Json};
use kestrel_trace::layout::{Field, FieldType, Layout};
use kestrel_trace::packet::offset::COMMITTED;
use kestrel_trace::process::Processes;
use kestrel_trace::symbol::Symbols;
use std::path::Path;
use std::process::{Command, Output};

/// Output of `babeltrace2 ARGS PATH`; `None` where it is not installed.
pub fn babeltrace(arguments: &[&str], path: &Path) -> Option<Output> {
    match Command::new("babeltrace2").args(arguments).arg(path).output() {
        Ok(output) => Some(output),
        Err(e) => {
            eprintln!("skipped: babeltrace2: {e}");
            None
        }
    }
}

#[test]
fn it_counts_the_same_events_and_warns_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 700);
    let Some(output) = babeltrace(&[], dir.path()) else {
        return;
    };
    let (out, err) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(err, "");
    assert!(output.status.success());
    let count = |name: &str| out.lines().filter(|line| line.contains(name)).count();
    assert_eq!(out.lines().count(), 2100);
    assert_eq!(count("sched:sched_switch:"), 3 * 280);
    assert_eq!(count("kprobe:do_exit:"), 3 * 140);
}

#[test]
fn it_sees_the_same_values() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let mut writer = directory::create(path, sample::info(), false).unwrap();
    let mut ring = Ring::new(sample::UUID, 0, 5);
    let begin = (1 << 48) - 1;
    for n in 0..2 {
        let time = begin + n;
        ring.push(
            time,
            &record(
                &sample::everything(),
                time,
                100,
                101,
                &sample::everything_cells(n + 4),
            ),
        );
    }
    writer.append(0, 5, &sealed(&mut ring)).unwrap();
    let Some(output) = babeltrace(&["--clock-seconds", "--no-delta"], path) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let out = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    // 1763650000.123456789 s + 2^48 - 1 ns: the time is completed beyond its 48 bits.
    let expected = [
        [
            "[1763931475.100167444]",
            "pid = 100, tid = 101",
            "caller = 0xFFFFFFFF81001005",
            "\"all\" : container = 18446744073709551615",
            "args = [ [0] = 0x4, [1] = 0x0, [2] = 0xFFFFFFFFFFFFFFFF ]",
            "arg_0 = -4",
            "mode = 0644",
            "lines = [ [0] = \"abc\", [1] = \"d\" ]",
            "kstack = [ ], ustack = [ [0] = 0x55550000 ], string = \"abcd\", name = \"\"",
        ],
        [
            "[1763931475.100167445]",
            "cpu_id = 5",
            "\"three\" : container = 3",
            "\"two\" : container = 2",
            "mask = 0xFFFFFFF0",
            "small = -2",
            "comm = \"cat\"",
            "_name_length = 5",
            "kstack = [ [0] = 0xFFFFFFFF81000010 ], ustack = [ [0] = 0x55550000, [1] = 0x55550001 ], string = \"abcde\"",
        ],
    ];
    for (line, expected) in lines.iter().zip(expected) {
        for part in expected {
            assert!(line.contains(part), "{part:?} not in {line}");
        }
    }
}

#[test]
fn it_sees_short_integers_in_words_and_strings_that_could_not_be_read() {
    let string = EventClass {
        id: EventId(8),
        name: "kprobe:x".into(),
        kind: "kprobe".into(),
        layout: Layout::new([("name".to_owned(), FieldType::String { max: 255 })]),
        action: None,
        print: None,
    };
    let dir = tempfile::tempdir().unwrap();
    let mut info = sample::info();
    info.events = vec![sample::words(), string.clone()];
    let mut writer = directory::create(dir.path(), info, false).unwrap();
    let mut ring = Ring::new(sample::UUID, 0, 0);
    let cells = [
        Cell::U(257),
        Cell::U(-100i64 as u64),
        Cell::U(0x1000),
        Cell::U(0xfff6),
    ];
    for time in [5, 6] {
        ring.push(time, &record(&sample::words(), time, 1, 1, &cells));
        let fault = Cell::T(kestrel_trace::value::fault_in_string(255));
        ring.push(time, &record(&string, time, 1, 1, &[fault]));
    }
    ring.leave();
    writer.append(0, 0, &ring.bytes()).unwrap();
    let mut ours = Vec::new();
    let mut reader = directory::open(dir.path()).unwrap().reader;
    let mut json = Json::new(Symbols::default(), Processes::default());
    while let Some(record) = reader.next().unwrap() {
        json.record(&record, &mut ours);
    }
    let ours = String::from_utf8(ours).unwrap();
    assert_eq!(
        ours.matches("\"dfd\":-100,\"path\":\"0x1000\",\"flags\":65526}")
            .count(),
        2,
        "{ours}"
    );
    assert_eq!(ours.matches("\"name\":null}").count(), 2, "{ours}");
    let Some(output) = babeltrace(&[], dir.path()) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(out.lines().count(), 4, "{out}");
    assert_eq!(
        out.matches("dfd = -100, path = 0x1000, flags = 65526").count(),
        2,
        "{out}"
    );
    assert_eq!(out.matches("name = \"(fault)\"").count(), 2, "{out}");
}

#[test]
fn it_too_sees_losses() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = directory::create(dir.path(), sample::info(), false).unwrap();
    let mut ring = Ring::new(sample::UUID, 0, 0);
    for n in 0..400 {
        if n == 200 {
            ring.lost = 17;
            ring.skip_packets(3);
        }
        ring.push(n, &record(&sample::crooked(), n, 1, 1, &[Cell::U(n)]));
    }
    writer.append(0, 0, &sealed(&mut ring)).unwrap();
    let Some(output) = babeltrace(&[], dir.path()) else {
        return;
    };
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        err.contains("discarded 17 events") && err.contains("discarded 3 packets"),
        "{err}"
    );
}

/// Cells with pseudo-random contents for any layout.
fn any_cells(event: &EventClass, seed: &mut u64) -> Vec<Cell> {
    let mut next = || {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    };
    let cell = |field: &Field| match &field.ty {
        FieldType::String { max } | FieldType::Bytes { max } => Cell::T(
            (0..next() % u64::from(*max + 1))
                .map(|n| b'a' + (n % 26) as u8)
                .collect(),
        ),
        FieldType::StackCopy { max, .. } => Cell::A((0..next() % u64::from(*max / 8 + 4)).collect()),
        FieldType::Stack { max, .. } => Cell::A((0..next() % u64::from(*max + 1)).collect()),
        ty if ty.integer_size().is_none() => Cell::T(
            (0..field.ty.fixed_size())
                .map(|n| b'A' + (n % 26) as u8)
                .collect(),
        ),
        _ => Cell::U(next()),
    };
    event.layout.fields().iter().map(cell).collect()
}

#[test]
fn it_reads_any_layout() {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut info = sample::info();
    info.events = (1..400)
        .map(|id| EventClass {
            id: EventId(id),
            name: format!("any:{id}"),
            ..crate::metadata::any_event()
                .new_tree(&mut runner)
                .unwrap()
                .current()
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let mut ring = Ring::new(sample::UUID, 0, 0);
    let mut seed = 1;
    for time in 0..1200 {
        let event = &info.events[time as usize % info.events.len()];
        ring.push(time, &record(event, time, 1, 2, &any_cells(event, &mut seed)));
    }
    ring.leave();
    let events = info.events.clone();
    let mut writer = directory::create(dir.path(), info, false).unwrap();
    writer.append(0, 0, &ring.bytes()).unwrap();
    // So do we.
    let mut reader = directory::open(dir.path()).unwrap().reader;
    let mut seed = 1;
    for time in 0..1200 {
        let event = &events[time as usize % events.len()];
        let expected = record(event, time, 1, 2, &any_cells(event, &mut seed));
        let found = reader.next().unwrap().unwrap();
        assert_eq!((found.event, found.bytes), (event, expected.as_slice()));
    }
    let Some(output) = babeltrace(&[], dir.path()) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let out = String::from_utf8(output.stdout).unwrap();
    let names = out.lines().filter_map(|line| {
        line.split_once(" any:")?
            .1
            .split_once(": {")
            .map(|(name, _)| name.to_owned())
    });
    let expected = (0..1200).map(|time| (time % 399 + 1).to_string());
    assert!(names.eq(expected));
}

#[test]
fn a_packet_without_events_is_no_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = directory::create(dir.path(), sample::info(), false).unwrap();
    let mut ring = Ring::new(sample::UUID, 0, 0);
    ring.push(5, &record(&sample::bare(), 5, 1, 1, &[]));
    ring.leave();
    ring.push(9, &record(&sample::bare(), 9, 1, 1, &[]));
    ring.pages[1][COMMITTED as usize..][..8].fill(0);
    writer.append(0, 0, &sealed(&mut ring)).unwrap();
    assert!(
        directory::open(dir.path())
            .unwrap()
            .reader
            .next()
            .unwrap()
            .is_some()
    );
    let Some(output) = babeltrace(&[], dir.path()) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
}
