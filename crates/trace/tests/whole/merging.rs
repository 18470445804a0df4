//! Several recordings as one: parts of one give it again, others keep their buffers, events, names and losses.

use crate::pages::{Cell, Ring, record};
use crate::rewriting::{records, rewrite};
use crate::sample::{self, class, crooked, info, integer};
use crate::writing::write;
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::merge::Merge;
use kestrel_trace::ctf::packet::seal;
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::{TraceInfo, Uuid};
use kestrel_trace::layout::Base;
use kestrel_trace::process::Processes;
use kestrel_trace::summary::{EventCount, Summary};
use kestrel_trace::symbol::Symbols;
use std::path::Path;

fn merge(from: &[&Path], to: &Path) -> Vec<String> {
    let named = |path: &&Path| (path.display().to_string(), directory::open(path).unwrap());
    let mut merge = Merge::new(from.iter().map(named).collect()).unwrap();
    merge.write(to, None).unwrap();
    merge.remarks().to_vec()
}

/// A recording with a record of `crooked` for each of those times, whose recorder lost so many.
fn recording(path: &Path, info: TraceInfo, times: &[u64], lost: u64, thread: (u32, &str)) {
    let event = info.events.last().unwrap().clone();
    let mut ring = Ring::new(info.uuid, info.buffers[0].number, 0);
    for (number, time) in times.iter().enumerate() {
        if number == times.len() / 2 {
            ring.leave();
            ring.lost = lost;
        }
        ring.push(
            *time,
            &record(&event, *time, thread.0, thread.0, &[Cell::U(*time % 200)]),
        );
    }
    let table = EventTable::new(info.events.clone());
    seal(ring.pages.last_mut().unwrap(), &table).unwrap();
    let mut writer = directory::create(path, info.clone(), false).unwrap();
    writer.append(info.buffers[0].number, 0, &ring.bytes()).unwrap();
    let summary = Summary {
        events: vec![EventCount {
            event: event.name,
            cpu: 0,
            recorded: times.len() as u64,
            lost,
            overwritten: 0,
        }],
        ..Summary::default()
    };
    let mut names = Processes::default();
    names.insert(thread.0, thread.1);
    let symbols = Symbols::new([(0xffff_ffff_8100_0000, 0x80, thread.1, None)]);
    writer.finish(&summary, &symbols, &names).unwrap();
}

fn other(uuid: u8) -> TraceInfo {
    TraceInfo {
        uuid: Uuid([uuid; 16]),
        events: vec![crooked()],
        buffers: info().buffers[..1].to_vec(),
        ..info()
    }
}

#[test]
fn parts_give_the_whole_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(&at("all"), 700);
    let all = rewrite(&at("all"), &at("whole"), None, |_| true);
    let mut times = Vec::new();
    let mut trace = directory::open(&at("all")).unwrap();
    while let Some(record) = trace.reader.next().unwrap() {
        times.push(record.time_ns);
    }
    let (first, second) = (times[times.len() / 4], times[times.len() / 2]);
    rewrite(&at("all"), &at("1"), None, |time| time < first);
    rewrite(&at("all"), &at("2"), Some(3), |time| {
        (first..second).contains(&time)
    });
    rewrite(&at("all"), &at("3"), None, |time| time >= second);
    let remarks = merge(&[&at("3"), &at("1"), &at("2")], &at("merged"));
    assert_eq!(remarks, Vec::<String>::new());
    let (merged, trace) = records(&at("merged"));
    assert!(merged == all);
    assert!(trace.reader.losses().is_none());
    assert_eq!(
        trace.reader.info(),
        &TraceInfo {
            tracer_version: trace.reader.info().tracer_version.clone(),
            ..info()
        }
    );
    assert_eq!(
        (trace.symbols, trace.processes),
        (sample::symbols(), sample::processes())
    );
    assert_eq!(trace.summary.unwrap().recorded(), 2100);
}

#[test]
fn recordings_of_one_boot_keep_their_own_buffers() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // The same event with another field, under the same number.
    let wide = class(
        301,
        "kprobe",
        "kprobe:crooked",
        vec![("a", integer(8, false, Base::Decimal))],
    );
    let second = TraceInfo {
        events: vec![wide],
        ..other(8)
    };
    recording(&at("a"), other(7), &[10, 20, 30, 40], 5, (1, "cat"));
    recording(&at("b"), second, &[15, 20, 35], 0, (2, "dog"));
    assert_eq!(merge(&[&at("a"), &at("b")], &at("both")), Vec::<String>::new());
    let mut trace = directory::open(&at("both")).unwrap();
    let mut seen = Vec::new();
    while let Some((buffer, record)) = trace.reader.next_in().unwrap() {
        let name = trace.processes.name(record.tid, record.pid).unwrap().to_owned();
        seen.push((record.time_ns, buffer, record.event.layout.fixed_end(), name));
    }
    let times: Vec<u64> = seen.iter().map(|it| it.0).collect();
    assert_eq!(times, [10, 15, 20, 20, 30, 35, 40]);
    let (cat, dog) = (&seen[0], &seen[1]);
    assert_eq!((cat.3.as_str(), dog.3.as_str()), ("cat", "dog"));
    assert!(cat.1 != dog.1 && cat.2 != dog.2, "buffers and layouts are apart");
    let info = trace.reader.info();
    assert_eq!(info.buffer_names(), ["main", "main-2"]);
    assert!(info.uuid != Uuid([7; 16]) && info.uuid != Uuid([8; 16]));
    assert_eq!(trace.reader.losses().lost, 5);
    assert_eq!(trace.summary.unwrap().lost(), 5);
    // Again, the other way round: the same identity.
    merge(&[&at("b"), &at("a")], &at("again"));
    let again = directory::open(&at("again")).unwrap();
    assert_eq!(again.reader.info().uuid, info.uuid);
}

#[test]
fn machines_are_put_together_by_the_wall_clock() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut early = other(7);
    early.boot = "one".to_owned();
    let mut late = other(8);
    late.boot = "another".to_owned();
    // Four days later: longer than a record's own header has time for.
    let later = 4 * 86_400;
    late.clock.seconds += later;
    recording(&at("a"), early, &[10, 20], 0, (1, "cat"));
    recording(&at("b"), late, &[1, 2], 0, (1, "dog"));
    let remarks = merge(&[&at("b"), &at("a")], &at("both"));
    assert!(remarks[0].contains("wall clock"), "{remarks:?}");
    let mut trace = directory::open(&at("both")).unwrap();
    let mut times = Vec::new();
    while let Some(record) = trace.reader.next().unwrap() {
        times.push(record.time_ns);
    }
    assert_eq!(
        times,
        [10, 20, later * 1_000_000_000 + 1, later * 1_000_000_000 + 2]
    );
    // A number that two threads have is both, and an address that two kernels have is neither.
    assert_eq!(trace.processes.name(1, 1), Some("dog/cat"));
    assert_eq!(trace.symbols.resolve(0xffff_ffff_8100_0000), None);
    assert_eq!(trace.reader.info().clock, info().clock);
}
