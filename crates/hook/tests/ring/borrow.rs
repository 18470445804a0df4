//! A log's reading: every record on file once and in order, whichever pages and parts of pages are taken, and however often its writer is killed
//! between a file and the ring.

use crate::support::{Bench, Shape, contents};
use kestrel_catalog::Error;
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::buffer::memory::Memory;
use kestrel_hook::buffer::reader::Ring;
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::{HEADER, PAGE};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Write this number of records.
    Record(u8),
    /// The whole pages go to the file; the log's writer may be killed before it says so in the ring.
    Pages { killed: bool },
    /// The records of the page in use go to the file; the same.
    Part { killed: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..60u8).prop_map(Step::Record),
        3 => any::<bool>().prop_map(|killed| Step::Pages { killed }),
        3 => any::<bool>().prop_map(|killed| Step::Part { killed }),
    ]
}

fn killed() -> Error {
    Error::Unsupported {
        what: "writing".to_owned(),
        why: "killed".to_owned(),
    }
}

/// Writes whole pages to `file`, or one run of them before it is killed.
fn pages<M: Memory>(ring: &Ring<M>, dies: bool, events: &EventTable, file: &mut Vec<u8>) {
    let end = ring.in_use(0);
    if let Some(rest) = ring.unread_tail(0, end, events).unwrap() {
        if rest.records > 0 {
            file.extend_from_slice(rest.bytes.as_slice());
            if dies {
                return;
            }
        }
        ring.acknowledge(0, rest.end);
    }
    loop {
        let lent = ring.borrow_run(0, end, &mut |memory, range| {
            let at = file.len();
            file.resize(at + range.len(), 0);
            memory.copy_out(range.start, &mut file[at..])?;
            if dies { Err(killed()) } else { Ok(()) }
        });
        if !matches!(lent, Ok(1..)) {
            return;
        }
    }
}

/// The first step of the next writer: it notes in the ring what is on file, as the number of the last packet has it.
fn catch_up<M: Memory>(ring: &Ring<M>, file: &[u8]) {
    let Some(last) = file.chunks(PAGE as usize).next_back() else {
        return;
    };
    let end = (Packet::parse(last).unwrap().sequence + 1) * u64::from(PAGE) + u64::from(HEADER);
    if end > ring.consumed(0) {
        ring.acknowledge(0, end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_record_is_on_file_once_and_in_order(steps in prop::collection::vec(step(), 1..80), size in 2..40u32) {
        let size = size * 8;
        let mut bench = Bench::new(Mode::Stream, 8, &[(1, size)]);
        let recorder = bench.recorder(1, Shape::Constant(size));
        let table = bench.table.clone();
        // A file that ended with a part is not written to again.
        let (mut ended, mut file) = (Vec::new(), Vec::new());
        let (mut tried, mut taken) = (0u64, Vec::new());
        for step in steps.into_iter().chain([Step::Pages { killed: false }, Step::Part { killed: false }]) {
            let now = bench.machine.environment.clock;
            match step {
                Step::Record(times) => {
                    for _ in 0..times {
                        bench.machine.environment.clock += 10;
                        tried += 1;
                        if recorder.run(&mut bench.machine, tried, size) {
                            taken.push(tried);
                        }
                    }
                }
                Step::Pages { killed } => {
                    bench.read(|ring| pages(ring, killed, &table, &mut file));
                    if killed {
                        bench.replace_reader();
                        bench.read(|ring| catch_up(ring, &file));
                    }
                }
                Step::Part { killed } => {
                    let part = bench.read(|ring| ring.unread_head(0, now, &table).unwrap());
                    let Some(part) = part else { continue };
                    ended.append(&mut file);
                    ended.extend_from_slice(part.bytes.as_slice());
                    if killed {
                        bench.replace_reader();
                    }
                    // The one who wrote it, or who finds it noted in the journal.
                    bench.read(|ring| ring.acknowledge(0, part.end));
                    prop_assert!(part.records > 0);
                }
            }
        }
        ended.append(&mut file);
        let kept: Vec<u64> = contents(&table, &ended).records.iter().map(|record| record.payload).collect();
        prop_assert_eq!(kept, taken);
    }
}
