//! An agent's reading: every message once and in order, whenever it looks, however often it says "later" or is replaced by another.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "tests")]

#[path = "../../hook/tests/ring/support.rs"]
#[allow(dead_code, reason = "the tests of rings use the rest")]
mod support;

use kestrel::agent::Answer;
use kestrel::agent::message_queue::MessageQueue;
use kestrel::buffer::layout::Mode;
use kestrel_trace::record::Record;
use proptest::prelude::*;
use support::{Bench, Shape};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A number of messages.
    Ask(u8),
    /// The agent looks, and acts on at most so many.
    Look(u8),
    /// The agent is killed; another begins.
    Replace,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..40u8).prop_map(Step::Ask),
        4 => (0..60u8).prop_map(Step::Look),
        1 => Just(Step::Replace),
    ]
}

/// Looks once; gives the payloads of the messages acted on.
fn look(bench: &mut Bench, mail: &mut MessageQueue, most: usize) -> Vec<u64> {
    let (now, table) = (bench.machine.environment.clock, bench.table.clone());
    let mut seen = Vec::new();
    let mut act = |record: &Record<'_>| {
        if seen.len() == most {
            return Ok(Answer::Later);
        }
        seen.push(u64::from_le_bytes(record.bytes[8..16].try_into().unwrap()));
        Ok(Answer::Done)
    };
    let acted = bench.read(|ring| mail.poll([(0, ring)], now, &table, &mut act).unwrap());
    assert_eq!(acted, seen.len());
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_message_once_and_in_order(steps in prop::collection::vec(step(), 1..60), size in 2..40u32) {
        let size = size * 8;
        let mut bench = Bench::new(Mode::Stream, 4, &[(1, size)]);
        let recorder = bench.recorder(1, Shape::Constant(size));
        let mut mail = MessageQueue::default();
        let (mut asked, mut taken, mut seen) = (0u64, Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Ask(times) => {
                    for _ in 0..times {
                        bench.machine.environment.clock += 10;
                        asked += 1;
                        if recorder.run(&mut bench.machine, asked, size) {
                            taken.push(asked);
                        }
                    }
                }
                Step::Look(most) => seen.extend(look(&mut bench, &mut mail, most.into())),
                Step::Replace => {
                    bench.replace_reader();
                    // Messages that waited in the process alone go with it: the oldest.
                    taken.drain(seen.len()..seen.len() + mail.alone());
                    mail = MessageQueue::default();
                }
            }
        }
        seen.extend(look(&mut bench, &mut mail, usize::MAX));
        prop_assert_eq!(&seen, &taken);
        prop_assert!(look(&mut bench, &mut mail, usize::MAX).is_empty());
        // Messages that were acted on leave room.
        bench.machine.environment.clock += 10;
        prop_assert!(recorder.run(&mut bench.machine, 1, size));
    }
}
