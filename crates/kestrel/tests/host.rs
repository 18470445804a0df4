//! A session on this machine's kernel, about this process only: what is kept, lost and overwritten adds up exactly.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::plan::{Options, Source, plan};
use kestrel::record::{Recorded, Recorder};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel_trace::ctf::directory;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const EVENT: &str = "syscalls:sys_enter_getppid";

/// A session for one event of this process, or why there can be none.
fn session(catalog: &Catalog, mode: Mode) -> Result<Session, kestrel::Error> {
    let options = Options {
        target: ProcessFilter::Processes(vec![std::process::id()]),
        mode: Some(mode),
        buffer_bytes: Some(64 << 10),
        ..Options::default()
    };
    let plan = plan(Source::Events(&[EVENT.to_owned()]), &options, catalog)?;
    Session::start(&plan, catalog, "a test")
}

fn calls(count: u64) {
    for _ in 0..count {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
}

/// Records `count` calls made in this process, polling meanwhile or not; `None` where tracing is not possible.
fn record(mode: Mode, path: &Path, count: u64, polling: bool) -> Option<Recorded> {
    let catalog = Catalog::new(Host::default());
    let session = match session(&catalog, mode) {
        Ok(session) => session,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let mut recorder = Recorder::create(session, path, false).unwrap();
    recorder.start();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            calls(count);
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            if polling {
                recorder.poll().unwrap();
            } else {
                std::thread::yield_now();
            }
        }
    });
    Some(recorder.finish(&catalog, None).unwrap())
}

/// Reads a trace back: its number of records; times of a CPU never run backwards.
fn read(path: &Path) -> u64 {
    let mut reader = directory::open(path).unwrap().reader;
    let mut last: HashMap<u32, u64> = HashMap::new();
    let mut count = 0;
    while let Some(record) = reader.next().unwrap() {
        let last = last.entry(record.cpu).or_default();
        assert!(
            record.time_ns >= *last,
            "time runs backwards on CPU {}",
            record.cpu
        );
        *last = record.time_ns;
        assert_eq!(record.pid, std::process::id());
        count += 1;
    }
    count
}

/// Whether this process can trace at all is decided once; all runs are one test, since two sessions would see each other's calls.
#[test]
fn kept_lost_and_overwritten_records_add_up() {
    let place = tempfile::tempdir().unwrap();
    for round in 0..5u64 {
        for (mode, polling) in [
            (Mode::Stream, false),
            (Mode::Stream, true),
            (Mode::Overwrite, false),
        ] {
            let count = 50_000 + 7_777 * round;
            let path = place.path().join(format!("{mode:?}-{polling}-{round}"));
            let Some(recorded) = record(mode, &path, count, polling) else {
                return;
            };
            let events = &recorded.summary.events;
            let sum = |of: fn(&kestrel_trace::summary::EventCount) -> u64| events.iter().map(of).sum::<u64>();
            let (kept, lost) = (sum(|e| e.recorded), sum(|e| e.lost));
            let overwritten = sum(|e| e.overwritten);
            // Hits that the kernel skips where a program was preempted; hits of others are among them, too.
            let missed = recorded.session.missed().unwrap().into_iter();
            let missed: u64 = missed.filter_map(|missed| missed.count.ok()).sum();
            println!(
                "{mode:?} {polling}: {count} = {kept} kept + {lost} lost + {overwritten} overwritten, {missed} missed"
            );
            let known = kept + lost + overwritten;
            assert!(known <= count && known + missed >= count);
            assert!(missed > 0 || recorded.summary.notes.is_empty());
            assert_eq!(read(&path), kept);
            assert!(kept + missed > 100);
            // A ring of 64 KiB holds so many of 24 bytes; the thread may have been on every CPU.
            let rings = recorded.session.buffers()[0].ring().cpus().count() as u64;
            let least = count.saturating_sub(rings * (64 << 10) / 24 + missed);
            match mode {
                Mode::Stream => assert_eq!(overwritten, 0),
                Mode::Overwrite => assert!(overwritten >= least && lost == 0),
            }
            if !polling && mode == Mode::Stream {
                assert!(lost >= least, "a ring of 64 KiB holds so many?");
            }
        }
    }
}
