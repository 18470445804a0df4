//! A program's own recording, cut and merged as every recording: the same events, and losses of its full rings are counted once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![cfg(target_os = "linux")]

mod steps;

use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::merge::Merge;
use kestrel_trace::ctf::rewrite::{Rewriter, SideData};
use kestrel_tracepoint::{Mode, Options, Recorder};
use std::path::Path;
use steps::steps;

kestrel_tracepoint::events! {
    group rewritten;

    event step(thread: u64, number: u64) {
        thread: u64 = thread,
        number: u64 = number,
        page: [u64; 100] = [number; 100],
    } print "{thread} {number}";
}

const THREADS: u64 = 4;

/// Has threads emit so many events each, faster than their rings of two pages are written; a moment of sleep lets each go to another CPU.
fn record(folder: &Path, first: u64, events: u64) -> (u64, u64) {
    let options = Options::new(folder, Mode::Stream)
        .events("rewritten:*")
        .ring_bytes(8192);
    let recorder = Recorder::start(options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 0..events {
                    trace_step(first + thread, number);
                    if number % 64 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                }
            });
        }
    });
    let recorded = recorder.stop().unwrap();
    assert_eq!(recorded.recorded + recorded.lost, THREADS * events);
    (recorded.recorded, recorded.lost)
}

fn cut(from: &Path, to: &Path, level: Option<u8>) {
    let mut trace = directory::open(from).unwrap();
    let mut rewriter = Rewriter::create(to, &trace.reader, level).unwrap();
    while let Some((buffer, record, lost)) = trace.reader.next_with_losses().unwrap() {
        rewriter.record(buffer, &record, lost).unwrap();
    }
    let beside = SideData {
        summary: trace.summary,
        processes: trace.processes,
        ..SideData::default()
    };
    rewriter.finish(beside, "cut".into()).unwrap();
}

#[test]
fn the_same_events_and_losses() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (first, lost) = record(&at("one"), 0, 3000);
    let (second, also_lost) = record(&at("two"), 100, 500);
    assert!(lost > 0);
    let (one, two) = (steps(&at("one")), steps(&at("two")));
    for level in [None, Some(3)] {
        let name = format!("cut{level:?}");
        cut(&at("one"), &at(&name), level);
        let again = steps(&at(&name));
        assert_eq!(again.0, one.0);
        // Those that were lost before the first record of a ring are of no part of it.
        assert!(
            again.1 <= one.1 && again.1 > one.1 / 2,
            "{} of {}",
            again.1,
            one.1
        );

        let open = |name: &str| (name.to_owned(), directory::open(&at(name)).unwrap());
        let merged = at(&format!("merged{level:?}"));
        let mut merge = Merge::new(vec![open("one"), open("two")]).unwrap();
        assert_eq!(merge.write(&merged, level).unwrap().records, first + second);
        let mut all = one.0.clone();
        all.extend(two.0.clone());
        assert_eq!(steps(&merged), (all, lost + also_lost));
    }
}
