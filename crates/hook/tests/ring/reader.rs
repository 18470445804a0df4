//! Writer and reader at once: nothing lost, nothing doubled, wherever the reader looks; rings that came round; writers that never finish.

use crate::support::{
    Attempts, Bench, Got, OTHER_VARIABLE, Reader, Recorder, Shape, VARIABLE, Window, check_overwrite,
    check_stream, contents, drain, rest,
};
use kestrel_bpf::interp::Machine;
use kestrel_hook::buffer::cursor::{Begin, Cursor, Policy, View};
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::buffer::reader::Ring;
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::HEADER;
use proptest::prelude::*;
use std::ops::ControlFlow;

/// Records that a live view and a trace have seen.
#[derive(Debug, Default)]
struct Seen {
    live: Vec<Got>,
    pages: Vec<u8>,
    cursor: Option<Cursor>,
}

impl Seen {
    /// Looks as `trace` does: whole pages, then the page in use.
    fn look(&mut self, machine: &mut Machine, reader: &mut Reader, table: &EventTable) {
        let now = machine.environment.clock;
        reader.with(machine, |ring| {
            let cursor = self.cursor.get_or_insert_with(|| ring.cursor(0, Begin::Unfreed));
            let mut take = |view: View<'_>| {
                show(&mut self.live, table, view.bytes, view.from);
                if !view.is_part {
                    self.pages.extend_from_slice(view.bytes);
                }
                Ok(ControlFlow::Continue(()))
            };
            ring.follow(cursor, Policy::Take, now, &mut take).unwrap();
        });
    }

    /// Drains only, as `record` does.
    fn drain(&mut self, machine: &mut Machine, reader: &mut Reader) {
        reader.with(machine, |ring| drain(ring, &mut self.pages));
    }
}

/// The records of a page from an offset on.
fn show(live: &mut Vec<Got>, table: &EventTable, page: &[u8], from: u32) {
    let mut at = HEADER;
    for record in contents(table, page).records {
        if at >= from {
            live.push(record);
        }
        at += record.size;
    }
}

/// The records that a cursor has not shown.
fn peek(ring: &Ring<Window>, cursor: &mut Cursor, now: u64, table: &EventTable, live: &mut Vec<Got>) {
    let mut take = |view: View<'_>| {
        show(live, table, view.bytes, view.from);
        Ok(ControlFlow::Continue(()))
    };
    ring.follow(cursor, Policy::Tail, now, &mut take).unwrap();
}

/// A step before an instruction of the outermost writer.
#[derive(Clone, Copy, Debug)]
enum Step {
    Look,
    Drain,
    Record { which: usize, behind: bool },
    Twice,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Look),
        2 => Just(Step::Drain),
        4 => (0..3usize, any::<bool>()).prop_map(|(which, behind)| Step::Record { which, behind }),
        1 => Just(Step::Twice),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule(
        overwrite: bool,
        live: bool,
        size in (3..250u32).prop_map(|n| n * 8),
        schedule in proptest::collection::vec((0..400usize, step()), 0..120),
    ) {
        let mode = if overwrite { Mode::Overwrite } else { Mode::Stream };
        let mut bench = Bench::new(mode, 4, &[(1, size), (2, 16), (3, size), (4, 16)]);
        let programs = [
            bench.recorder(1, Shape::Constant(size)),
            bench.recorder(2, Shape::Constant(16)),
            bench.recorder(VARIABLE, Shape::Variable),
        ];
        // The kernel never runs a program on a CPU where it is running already.
        let interrupts = [
            bench.recorder(3, Shape::Constant(size)),
            bench.recorder(4, Shape::Constant(16)),
            bench.recorder(OTHER_VARIABLE, Shape::Variable),
        ];
        let mut attempts = Attempts::default();
        let mut seen = Seen::default();
        let mut schedule = schedule.into_iter();
        let mut next = schedule.next();
        let mut waited = 0;
        let mut kept = 0u64;
        while next.is_some() {
            let Bench { machine, reader, table, .. } = &mut bench;
            let program = &programs[attempts.of(1) as usize % 3];
            let payload = attempts.next(program.number);
            let went = program.run_hooked(machine, payload, 24 + payload as u32 % 800 / 8 * 8, &mut |machine, _| {
                waited += 1;
                let Some((after, step)) = next else { return };
                if waited <= after {
                    return;
                }
                waited = 0;
                next = schedule.next();
                match step {
                    Step::Look | Step::Drain if live && !overwrite => seen.look(machine, reader, table),
                    Step::Drain | Step::Look if !overwrite => seen.drain(machine, reader),
                    Step::Drain | Step::Look => {
                        // A snapshot's reader must not see nonsense; what it takes is thrown away here.
                        let mut pages = Vec::new();
                        reader.with(machine, |ring| drain(ring, &mut pages));
                        contents(table, &pages);
                    }
                    Step::Record { which, behind } => {
                        if behind {
                            machine.environment.clock -= 7;
                        }
                        let program = &interrupts[which];
                        let payload = attempts.next(program.number);
                        kept += u64::from(program.run(machine, payload, 200));
                    }
                    Step::Twice => {
                        let outer = attempts.next(4);
                        let inner = attempts.next(3);
                        let mut steps = 0;
                        kept += u64::from(interrupts[1].run_hooked(machine, outer, 0, &mut |machine, _| {
                            steps += 1;
                            if steps == after % 70 {
                                kept += u64::from(interrupts[0].run(machine, inner, 0));
                            }
                        }));
                        if steps < after % 70 || after % 70 == 0 {
                            kept += u64::from(interrupts[0].run(machine, inner, 0));
                        }
                    }
                }
            });
            kept += u64::from(went);
        }
        if overwrite {
            check_overwrite(&mut bench, &attempts);
        } else {
            if live {
                let Bench { machine, reader, table, .. } = &mut bench;
                seen.look(machine, reader, table);
                // Nothing lost and nothing doubled.
                attempts.check(&seen.live);
                prop_assert_eq!(seen.live.len() as u64, kept);
                prop_assert!(seen.live.is_sorted_by_key(|r| r.time));
            }
            let contents = check_stream(&mut bench, &attempts, &seen.pages);
            prop_assert_eq!(contents.records.len() as u64, kept);
        }
    }
}

/// The reader looks before every single instruction of a writer that switches pages.
#[test]
fn a_reader_at_every_instruction() {
    let mut bench = Bench::new(Mode::Stream, 4, &[(1, 1000)]);
    let program = bench.recorder(1, Shape::Constant(1000));
    let mut attempts = Attempts::default();
    let mut seen = Seen::default();
    for _ in 0..100 {
        let Bench {
            machine,
            reader,
            table,
            ..
        } = &mut bench;
        let payload = attempts.next(1);
        let mut drain = |machine: &mut Machine, _| seen.look(machine, reader, table);
        assert!(program.run_hooked(machine, payload, 0, &mut drain));
    }
    let Bench {
        machine,
        reader,
        table,
        ..
    } = &mut bench;
    seen.look(machine, reader, table);
    assert!((0x5eed_0000..).zip(&seen.live).all(|(p, r)| p == r.payload));
    assert_eq!(seen.live.len(), 100);
    check_stream(&mut bench, &attempts, &seen.pages);
}

/// A writer opens a page of the second lap, an interrupter leaves it for the next one, and neither has said so yet: the old page
/// is not taken for the new one.
#[test]
fn a_page_of_the_last_lap_is_not_handed_out_again() {
    let constant = [(1, 2000), (2, 2400)];
    let geometry = Bench::new(Mode::Stream, 4, &constant).geometry;
    let opener = Recorder::new(geometry, 1, Shape::Constant(2000));
    let leaver = Recorder::new(geometry, 2, Shape::Constant(2400));
    let (mut outer, mut outer_length) = (0, usize::MAX);
    while outer < outer_length {
        let (mut inner, mut inner_length) = (0, usize::MAX);
        while inner < inner_length {
            let mut bench = Bench::new(Mode::Stream, 4, &constant);
            let mut attempts = Attempts::default();
            let mut seen = Seen::default();
            for _ in 0..8 {
                let payload = attempts.next(1);
                assert!(opener.run(&mut bench.machine, payload, 0));
            }
            seen.drain(&mut bench.machine, &mut bench.reader);
            let Bench { machine, reader, .. } = &mut bench;
            let (payload, mut steps) = (attempts.next(1), 0);
            inner_length = 0;
            opener.run_hooked(machine, payload, 0, &mut |machine, _| {
                if steps == outer {
                    let (payload, mut steps) = (attempts.next(2), 0);
                    leaver.run_hooked(machine, payload, 0, &mut |machine, _| {
                        if steps == inner {
                            seen.drain(machine, reader);
                        }
                        steps += 1;
                    });
                    inner_length = steps;
                }
                steps += 1;
            });
            outer_length = steps;
            check_stream(&mut bench, &attempts, &seen.pages);
            inner += 1;
        }
        outer += 1;
    }
}

/// A writer is in the middle of a record when another CPU looks; between any two of its accesses another record comes, of the
/// same size.
#[test]
fn a_race_for_the_page_in_use() {
    let constant = [(1, 64), (2, 64)];
    let geometry = Bench::new(Mode::Stream, 4, &constant).geometry;
    let (program, other) = (
        Recorder::new(geometry, 1, Shape::Constant(64)),
        Recorder::new(geometry, 2, Shape::Constant(64)),
    );
    let (mut at, mut length) = (0, usize::MAX);
    while at < length {
        for access in 0.. {
            let mut bench = Bench::new(Mode::Stream, 4, &constant);
            let Bench {
                machine,
                reader,
                table,
                ..
            } = &mut bench;
            let mut live = Vec::new();
            let mut cursor = reader.with(machine, |ring| ring.cursor(0, Begin::Unfreed));
            let mut steps = 0;
            let mut went = true;
            program.run(machine, 1, 0);
            program.run_hooked(machine, 2, 0, &mut |machine, _| {
                if steps == at {
                    let other = other.clone();
                    let writers = Box::new(move |machine: &mut Machine| {
                        assert!(other.run(machine, 3, 0));
                    });
                    let now = machine.environment.clock;
                    (went, ()) = reader.racing(machine, access, writers, |ring| {
                        peek(ring, &mut cursor, now, table, &mut live);
                    });
                }
                steps += 1;
            });
            length = steps;
            let now = machine.environment.clock;
            reader.with(machine, |ring| peek(ring, &mut cursor, now, table, &mut live));
            live.sort_by_key(|record| record.payload);
            let payloads: Vec<u64> = live.iter().map(|record| record.payload).collect();
            assert_eq!(payloads, if went { &[1, 2, 3][..] } else { &[1, 2] });
            if !went {
                break;
            }
        }
        at += 1;
    }
}

/// Writers come round while a snapshot is taken: what is overwritten under the reader is not handed out.
#[test]
fn a_race_for_the_oldest_page() {
    for laps in [1, 3] {
        for others in [1, 2, 3, 8, 9] {
            for access in 0.. {
                let mut bench = Bench::new(Mode::Overwrite, 4, &[(1, 2000)]);
                let program = bench.recorder(1, Shape::Constant(2000));
                let Bench {
                    machine,
                    reader,
                    table,
                    ..
                } = &mut bench;
                for payload in 0..laps * 8 {
                    assert!(program.run(machine, payload, 0));
                }
                let writers = Box::new(move |machine: &mut Machine| {
                    (100..100 + others).for_each(|payload| assert!(program.run(machine, payload, 0)));
                });
                let mut pages = Vec::new();
                let (went, drained) = reader.racing(machine, access, writers, |ring| drain(ring, &mut pages));
                assert!(drained >= 3 || went);
                let got = contents(table, &pages);
                assert!(got.records.is_sorted_by_key(|record| record.payload));
                assert!(
                    got.records
                        .iter()
                        .all(|r| r.payload < laps * 8 || r.payload >= 100)
                );
                if !went {
                    break;
                }
            }
        }
    }
}

/// Stops a writer before the `at`th instruction for good and goes on with others; gives whether there was such an instruction.
fn stop_at(bench: &mut Bench, at: usize, others: usize, uncounted: &mut usize) -> bool {
    let mut attempts = Attempts::default();
    let stopped = bench.recorder(1, Shape::Constant(64));
    let other = bench.recorder(2, Shape::Constant(200));
    let before = attempts.next(2);
    assert!(other.run(&mut bench.machine, before, 0));
    let payload = attempts.next(1);
    let mut steps = 0;
    let table = bench.table.clone();
    let Bench { machine, reader, .. } = bench;
    stopped.run_hooked(machine, payload, 0, &mut |machine, _| {
        if steps == at {
            let mut kept = 0;
            for _ in 0..others {
                let payload = attempts.next(2);
                kept += usize::from(other.run(machine, payload, 0));
            }
            let mut pages = Vec::new();
            let now = machine.environment.clock;
            let rest = reader.with(machine, |ring| rest(ring, 0, now, &table, &mut pages));
            let contents = contents(&table, &pages);
            attempts.check(&contents.records);
            let mine = contents.records.iter().filter(|r| r.number == 1).count();
            // Between its last store and the count it is complete and may be read, at the cost of the last in its page.
            let complete = usize::from(mine == 1 && rest.unfinished == 1);
            *uncounted += complete;
            let others = contents.records.len() - mine + rest.torn as usize;
            assert!(rest.unfinished <= 1);
            let accounted = others == 1 + kept || complete == 1 && others == kept;
            assert!(accounted, "instruction {at}, {others} of {}, {rest:?}", 1 + kept);
            if rest.unfinished == 0 {
                assert_eq!(rest.torn, 0);
            }
            assert!(rest.torn <= 20, "the torn page alone suffers");
        }
        steps += 1;
    });
    steps > at
}

#[test]
fn a_writer_that_never_finishes_leaves_its_neighbours() {
    for others in [0, 5, 60] {
        let mut uncounted = 0;
        for at in 0.. {
            let mut bench = Bench::new(Mode::Stream, 8, &[(1, 64), (2, 200)]);
            if !stop_at(&mut bench, at, others, &mut uncounted) {
                break;
            }
        }
        // Instructions from the number to the count.
        assert!(uncounted <= 14, "{uncounted}");
    }
}

/// A ring that would come round to an unfinished record refuses, counts, and goes on when the record is finished.
#[test]
fn an_overwriting_ring_waits_for_an_unfinished_record() {
    let constant = [(1, 64), (2, 2000)];
    let geometry = Bench::new(Mode::Overwrite, 4, &constant).geometry;
    let (slow, other) = (
        Recorder::new(geometry, 1, Shape::Constant(64)),
        Recorder::new(geometry, 2, Shape::Constant(2000)),
    );
    for before in [0, 2, 10] {
        for others in [6, 7, 8, 9, 10, 15, 16, 17] {
            for after in [0, 1, 3] {
                for at in 0.. {
                    let mut bench = Bench::new(Mode::Overwrite, 4, &constant);
                    let mut attempts = Attempts::default();
                    let more = |machine: &mut Machine, attempts: &mut Attempts, count| {
                        for _ in 0..count {
                            let payload = attempts.next(2);
                            other.run(machine, payload, 0);
                        }
                    };
                    more(&mut bench.machine, &mut attempts, before);
                    let (payload, mut steps) = (attempts.next(1), 0);
                    slow.run_hooked(&mut bench.machine, payload, 0, &mut |machine, _| {
                        if steps == at {
                            more(machine, &mut attempts, others);
                        }
                        steps += 1;
                    });
                    more(&mut bench.machine, &mut attempts, after);
                    let contents = check_overwrite(&mut bench, &attempts);
                    if steps <= at {
                        break;
                    }
                    assert!(contents.records.len() >= 6);
                }
            }
        }
    }
}

/// The same, the page having been opened by one and left by another, neither of which has said so yet: the ring comes round to what
/// looks like the page's last use.
#[test]
fn an_overwriting_ring_waits_for_the_writer_that_opened_a_page() {
    let constant = [(1, 2000), (2, 2400), (3, 2400)];
    let geometry = Bench::new(Mode::Overwrite, 4, &constant).geometry;
    let opener = Recorder::new(geometry, 1, Shape::Constant(2000));
    let leaver = Recorder::new(geometry, 2, Shape::Constant(2400));
    let others = Recorder::new(geometry, 3, Shape::Constant(2400));
    let (mut outer, mut outer_length) = (0, usize::MAX);
    while outer < outer_length {
        let (mut inner, mut inner_length) = (0, usize::MAX);
        while inner < inner_length {
            let mut bench = Bench::new(Mode::Overwrite, 4, &constant);
            let mut attempts = Attempts::default();
            for _ in 0..8 {
                let payload = attempts.next(1);
                assert!(opener.run(&mut bench.machine, payload, 0));
            }
            let (payload, mut steps) = (attempts.next(1), 0);
            inner_length = 0;
            opener.run_hooked(&mut bench.machine, payload, 0, &mut |machine, _| {
                if steps == outer {
                    let (payload, mut steps) = (attempts.next(2), 0);
                    leaver.run_hooked(machine, payload, 0, &mut |machine, _| {
                        if steps == inner {
                            for _ in 0..5 {
                                let payload = attempts.next(3);
                                others.run(machine, payload, 0);
                            }
                        }
                        steps += 1;
                    });
                    inner_length = steps;
                }
                steps += 1;
            });
            outer_length = steps;
            check_overwrite(&mut bench, &attempts);
            inner += 1;
        }
        outer += 1;
    }
}
