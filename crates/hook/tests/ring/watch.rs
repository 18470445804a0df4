//! Somebody who looks at a ring and takes nothing: each record once and in order, whenever writers come, and those that were overwritten are known
//! to the record.

use crate::support::{Bench, Shape, Window, contents};
use kestrel_bpf::interp::Machine;
use kestrel_hook::buffer::cursor::{Begin, Cursor, Policy, View};
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::buffer::reader::Ring;
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::HEADER;
use std::ops::ControlFlow;

/// Looks, at most `most` pages at once; the payloads go to `shown`.
fn look(ring: &Ring<Window>, cursor: &mut Cursor, table: &EventTable, most: usize, shown: &mut Vec<u64>) {
    let mut pages = 0;
    let mut show = |view: View<'_>| {
        let mut at = HEADER;
        for record in contents(table, view.bytes.as_slice()).records {
            if at >= view.from {
                shown.push(record.payload);
            }
            at += record.size;
        }
        pages += 1;
        Ok(match pages % most {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    };
    let mut rounds = 0;
    while !ring.follow(cursor, Policy::Tail, u64::MAX, &mut show).unwrap() {
        rounds += 1;
        assert!(rounds < 100, "it comes to an end");
    }
}

#[test]
fn each_record_is_shown_once_or_known_to_be_missing() {
    for (mode, pages) in [(Mode::Stream, 64), (Mode::Overwrite, 2), (Mode::Overwrite, 4)] {
        for others in [1, 3, 9, 40] {
            let mut most_missing = 0;
            for access in 0.. {
                let mut bench = Bench::new(mode, pages, &[(1, 1000)]);
                let program = bench.recorder(1, Shape::Constant(1000));
                for payload in 0..3 {
                    assert!(program.run(&mut bench.machine, payload, 0));
                }
                let table = bench.table.clone();
                let Bench { machine, reader, .. } = &mut bench;
                let (mut cursor, begin) = reader.with(machine, |ring| {
                    (ring.cursor(0, Begin::Start), ring.checkpoint_at_start(0))
                });
                let mut shown = Vec::new();
                reader.with(machine, |ring| look(ring, &mut cursor, &table, 1, &mut shown));
                assert_eq!(shown, [0, 1, 2]);
                let all = 3 + others;
                let writers = Box::new(move |machine: &mut Machine| {
                    for payload in 3..all {
                        assert!(program.run(machine, payload, 0));
                    }
                });
                let racing = |ring: &Ring<Window>| look(ring, &mut cursor, &table, 2, &mut shown);
                let (went, ()) = reader.racing(machine, access, writers, racing);
                let end = reader.with(machine, |ring| ring.checkpoint(0));
                reader.with(machine, |ring| look(ring, &mut cursor, &table, 7, &mut shown));
                assert!(
                    shown.is_sorted_by(|a, b| a < b),
                    "{mode:?} at {access}: {shown:?}"
                );
                let happened = if went { all } else { 3 };
                let missing = happened - shown.len() as u64;
                assert!(
                    missing == 0 || cursor.unread().overwritten > 0,
                    "{mode:?} at {access}: {shown:?}"
                );
                let counted = end.zip(begin).map(|(end, begin)| end.recorded - begin.recorded);
                assert!(
                    counted.is_none_or(|counted| counted == happened),
                    "{counted:?} of {happened}"
                );
                assert_eq!(counted.is_some(), mode == Mode::Overwrite);
                if missing == 0 {
                    assert!(shown.iter().copied().eq(0..happened));
                }
                most_missing = most_missing.max(missing);
                if !went {
                    break;
                }
            }
            assert_eq!(
                most_missing > 0,
                mode == Mode::Overwrite && others > 4 * u64::from(pages),
                "{mode:?} {others}"
            );
        }
    }
}
