//! Copies of a ring that goes on: the same records as a reader would get, nothing taken, nothing doubled, and what was overwritten is counted.

use crate::support::{Bench, Contents, OTHER_VARIABLE, Recorder, Shape, VARIABLE, Window, contents, drain};
use kestrel_hook::buffer::cursor::{Begin, Policy, Unread, View};
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::buffer::reader::Ring;
use kestrel_trace::ctf::packet::cut_before;
use kestrel_trace::decode::EventTable;
use std::ops::ControlFlow;

fn copy(ring: &Ring<Window>, table: &EventTable, since: u64, now: u64) -> (Vec<u8>, Unread) {
    let mut pages = Vec::new();
    let mut cursor = ring.cursor(0, Begin::Since(since));
    let mut copy = |view: View<'_>| {
        if cut_before(view.bytes, since, table).unwrap() > 0 {
            pages.extend_from_slice(view.bytes);
        }
        Ok(ControlFlow::Continue(()))
    };
    ring.follow(&mut cursor, Policy::Snapshot(table), now, &mut copy)
        .unwrap();
    (pages, cursor.unread())
}

fn snapshot(bench: &mut Bench, since: u64) -> (Contents, Unread) {
    let (table, now) = (bench.table.clone(), bench.machine.environment.clock);
    let (pages, copied) = bench.read(|ring| copy(ring, &table, since, now));
    (contents(&table, &pages), copied)
}

fn payloads(contents: &Contents) -> Vec<u64> {
    contents.records.iter().map(|record| record.payload).collect()
}

#[test]
fn a_copy_equals_a_readers_pages_and_consumes_nothing() {
    for mode in [Mode::Stream, Mode::Overwrite] {
        for count in [0, 1, 5, 60, 100, 101, 500] {
            let mut bench = Bench::new(mode, 4, &[(1, 136)]);
            let programs = [
                bench.recorder(1, Shape::Constant(136)),
                bench.recorder(VARIABLE, Shape::Variable),
            ];
            for payload in 0..count {
                let program = &programs[payload as usize % 3 / 2];
                program.run(&mut bench.machine, payload, 24 + payload as u32 % 50 * 8);
            }
            let (first, copied) = snapshot(&mut bench, 0);
            let (second, _) = snapshot(&mut bench, 0);
            assert_eq!((copied.overwritten, copied.unfinished, copied.torn), (0, 0, 0));
            assert_eq!(payloads(&first), payloads(&second));
            let pages = bench.rest();
            assert_eq!(contents(&bench.table, &pages).records, first.records);
        }
    }
}

#[test]
fn a_snapshot_since_a_time_begins_at_its_first_record() {
    let mut bench = Bench::new(Mode::Overwrite, 4, &[(1, 136)]);
    let program = bench.recorder(1, Shape::Constant(136));
    for payload in 0..150 {
        assert!(program.run(&mut bench.machine, payload, 0));
    }
    let (all, _) = snapshot(&mut bench, 0);
    assert!(all.records.len() > 90);
    for (index, record) in all.records.iter().enumerate() {
        for (since, first) in [(record.time, index), (record.time + 1, index + 1)] {
            let (some, copied) = snapshot(&mut bench, since);
            assert_eq!(some.records, all.records[first..]);
            assert_eq!(some.missing_packets + copied.overwritten, 0);
        }
    }
}

#[test]
fn a_snapshot_has_no_pages_that_a_reader_freed() {
    let mut bench = Bench::new(Mode::Stream, 8, &[(1, 1000)]);
    let program = bench.recorder(1, Shape::Constant(1000));
    for payload in 0..18 {
        assert!(program.run(&mut bench.machine, payload, 0));
    }
    let mut pages = Vec::new();
    bench.read(|ring| drain(ring, &mut pages));
    let (left, _) = snapshot(&mut bench, 0);
    assert_eq!(payloads(&left), [16, 17]);
}

/// Writers come between any two accesses of the copier.
#[test]
fn pages_overwritten_during_a_snapshot_are_counted() {
    for mode in [Mode::Stream, Mode::Overwrite] {
        for others in [1, 2, 3, 8, 9, 40] {
            let mut most = 0;
            for access in 0.. {
                let mut bench = Bench::new(mode, 4, &[(1, 2000)]);
                let program = bench.recorder(1, Shape::Constant(2000));
                let laps = if mode == Mode::Stream { 5 } else { 16 };
                for payload in 0..laps {
                    assert!(program.run(&mut bench.machine, payload, 0));
                }
                let writers = Box::new(move |machine: &mut kestrel_bpf::interp::Machine| {
                    for payload in laps..laps + others {
                        program.run(machine, payload, 0);
                    }
                });
                let (table, now) = (bench.table.clone(), bench.machine.environment.clock);
                let Bench { machine, reader, .. } = &mut bench;
                let (went, (pages, copied)) =
                    reader.racing(machine, access, writers, |ring| copy(ring, &table, 0, now));
                let got = contents(&table, &pages);
                assert_eq!((copied.unfinished, copied.torn), (0, 0));
                assert!(
                    got.records
                        .iter()
                        .zip(got.records.iter().skip(1))
                        .all(|(a, b)| a.payload < b.payload)
                );
                assert!(
                    pages.len() as u64 / 4096 + copied.overwritten >= 3,
                    "{mode:?} {others} at {access}: {copied:?}"
                );
                if copied.overwritten == 0 {
                    let first = got.records[0].payload;
                    assert!(
                        (first..)
                            .zip(&got.records)
                            .all(|(payload, record)| payload == record.payload)
                    );
                }
                most = most.max(copied.overwritten);
                if !went {
                    break;
                }
            }
            assert_eq!(most > 0, mode == Mode::Overwrite, "{mode:?} {others}");
        }
    }
}

/// A writer stands still at any instruction: what was committed before it is there, and nothing that never was.
#[test]
fn a_writer_in_the_middle_of_a_record() {
    for mode in [Mode::Stream, Mode::Overwrite] {
        for before in [1, 3, 4, 7] {
            for late in [0, 1, 6] {
                let mut at = 0;
                let mut length = usize::MAX;
                while at < length {
                    let mut bench = Bench::new(mode, 4, &[(1, 1000), (2, 1000)]);
                    let outer = bench.recorder(1, Shape::Constant(1000));
                    let inner = bench.recorder(2, Shape::Constant(1000));
                    let other = Recorder::new(bench.geometry, OTHER_VARIABLE, Shape::Variable);
                    for payload in 0..before {
                        assert!(outer.run(&mut bench.machine, payload, 0));
                    }
                    let Bench {
                        machine,
                        reader,
                        table,
                        ..
                    } = &mut bench;
                    let mut got = None;
                    let mut steps = 0;
                    outer.run_hooked(machine, 100, 0, &mut |machine, _| {
                        if steps == at {
                            (0..late).for_each(|n| assert!(inner.run(machine, 200 + n, 0)));
                            other.run(machine, 300, 48);
                            let now = machine.environment.clock;
                            got = Some(reader.with(machine, |ring| copy(ring, table, 0, now)));
                        }
                        steps += 1;
                    });
                    length = steps;
                    let (pages, copied) = got.unwrap_or_default();
                    let records = contents(table, &pages).records;
                    let mut expected: Vec<u64> = (0..before).collect();
                    expected.extend(200..200 + late);
                    expected.push(300);
                    let known = |payload: u64| payload == 100 || expected.contains(&payload);
                    assert!(records.iter().all(|record| known(record.payload)));
                    assert!((0..before).zip(&records).all(|(payload, r)| payload == r.payload));
                    let there = records.iter().filter(|record| record.payload != 100).count();
                    let all = there as u64 + copied.torn == expected.len() as u64;
                    assert!(
                        all || copied.unfinished > 0,
                        "{mode:?} {before} {late} at {at}: {copied:?}"
                    );
                    assert!(copied.unfinished > 0 || copied.torn == 0);
                    at += 1;
                }
            }
        }
    }
}
