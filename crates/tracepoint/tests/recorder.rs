//! A program's own recording is read as any trace of Kestrel's: to the last event, or with the number of those that were lost; also when the program died.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![cfg(target_os = "linux")]

mod steps;

use kestrel_trace::ctf::{directory, metadata};
use kestrel_trace::image::Image;
use kestrel_trace::process::Processes;
use kestrel_trace::recover::{Recovered, search};
use kestrel_tracepoint::{Mode, Options, Recorder};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use steps::steps;

kestrel_tracepoint::events! {
    group ring;

    event all(path: &str, body: &[u8]) {
        small: u8 = 200,
        path: str = path,
        negative: i16 = -2,
        ratio: f64 = 0.5,
        body: bytes = body,
        half: f32 = 1.25,
        yes: bool = true,
        peer: [u8; 4] = [127, 0, 0, 1],
        wide: [i64; 2] = [-1, i64::MAX],
        name: char[8] = "abcdefghij",
        place: usize = 0xbeef,
        second: str = "zwei",
    } print "{small} {path} {negative} {ratio} {body} {half} {yes} {peer} {wide} {name} {place:#x} {second}";
    event step(thread: u64, number: u64, more: u64) {
        thread: u64 = thread,
        number: u64 = number,
        more: u64 = more,
    } print "{thread} {number}";
    event other(number: u64) { number: u64 = number } print "{number}";
    event odd(number: u64) { number: u64 = number } if number % 2 == 1 print "{number}";
    event wide() { page: [u64; 600] = [0; 600] } print "";
    event bare() {} print "nothing";
}

/// A process records once at a time, and tests of one program run side by side.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// babeltrace2's lines, where it is installed; it has nothing to complain of.
fn babeltrace(folder: &Path) -> Option<Vec<String>> {
    let output = match Command::new("babeltrace2").arg(folder).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: babeltrace2: {error}");
            return None;
        }
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    // Losses of events are reported there, too.
    let other_line = |line: &&str| !line.contains("discarded") && !line.is_empty();
    assert_eq!(complaints.lines().find(other_line), None);
    Some(
        // It prints bytes as they are.
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect(),
    )
}

#[test]
fn fields_of_all_kinds_are_read_as_they_were_written() {
    let _alone = alone();
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("trace");
    let recorder = Recorder::start(Options::new(&folder, Mode::Stream)).unwrap();
    trace_all("not yet", b"");
    assert_eq!(recorder.enable("ring:{all,odd,bare}").unwrap(), 3);
    assert_eq!(recorder.enable("ring:all").unwrap(), 0);
    trace_all("/x", b"\x01\xff");
    trace_all(&"long ".repeat(1000), &[7; 5000]);
    trace_all("", b"");
    for number in 0..4 {
        trace_odd(number);
    }
    // The kernel cuts its name.
    let worker = std::thread::Builder::new().name("a worker that has much to do".to_owned());
    worker.spawn(trace_bare).unwrap().join().unwrap();
    assert_eq!(recorder.disable("ring:odd"), 1);
    trace_odd(5);
    let error = Recorder::start(Options::new(top.path().join("other"), Mode::Stream)).unwrap_err();
    assert!(error.to_string().contains("records already"), "{error}");
    let error = recorder.enable("ring:wide").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a record of ring:wide has no room in a page of 4096 bytes"
    );
    trace_wide();
    let recorded = recorder.stop().unwrap();
    assert_eq!((recorded.recorded, recorded.lost, recorded.unnamed), (6, 0, 0));
    assert!(!all::enabled());
    trace_all("no more", b"");

    let mut trace = directory::open(&folder).unwrap();
    assert!(trace.summary.is_some_and(|summary| summary.frozen == Some(0)));
    let named = std::fs::read_to_string(folder.join(".kestrel/processes")).unwrap();
    let names = Processes::parse(named.as_bytes()).unwrap();
    let process = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(
        names.name(0xffff_ffff, std::process::id()),
        Some(process.trim_end())
    );
    assert!(
        named.lines().any(|line| line.ends_with(" a worker that h")),
        "{named}"
    );
    let mut printed = Vec::new();
    let mut export =
        kestrel_trace::export::Text::new(Default::default(), Default::default(), Processes::default());
    let mut fields = Vec::new();
    while let Some(record) = trace.reader.next().unwrap() {
        kestrel_trace::export::Export::record(&mut export, &record, &mut printed);
        fields.push(record.fields().count());
        assert_eq!(record.pid, std::process::id());
    }
    let printed = String::from_utf8(printed).unwrap();
    let lines: Vec<&str> = printed
        .lines()
        .map(|line| line.split_once(": ring:").unwrap().1)
        .collect();
    assert_eq!(
        lines[0],
        "all: 200 /x -2 0.5 {0x01,0xff} 1.25 1 {127,0,0,1} {-1,9223372036854775807} abcdefg 0xbeef zwei"
    );
    assert!(lines[1].contains(" long long long "), "{}", lines[1]);
    assert!(lines[2].starts_with("all: 200  -2 0.5 {} 1.25"), "{}", lines[2]);
    assert_eq!(lines[3..], ["odd: 1", "odd: 3", "bare: nothing"]);
    assert_eq!(fields, [12, 12, 12, 1, 1, 0]);

    // The text is what Kestrel itself writes of such a trace.
    let text = std::fs::read_to_string(folder.join("metadata")).unwrap();
    let again = metadata::text(&metadata::parse(&text).unwrap()).unwrap();
    assert_eq!(again.replace("domain = \"kernel\"", "domain = \"process\""), text);
    if let Some(lines) = babeltrace(&folder) {
        assert_eq!(lines.len(), 6);
        for part in [
            "small = 200",
            "path = \"/x\"",
            "ratio = 0.5",
            "half = 1.25",
            "[1] = 9223372036854775807",
        ] {
            assert!(lines[0].contains(part), "{part}: {}", lines[0]);
        }
    }
}

/// Each event that a thread emits is in its file, in order, or counted.
#[test]
fn every_event_is_recorded_or_counted() {
    let _alone = alone();
    const THREADS: u64 = 4;
    const EACH: u64 = 100_000;
    for ring_bytes in [4 << 12, 1 << 20] {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("trace");
        let options = Options::new(&folder, Mode::Stream)
            .ring_bytes(ring_bytes)
            .events("ring:step");
        let recorder = Recorder::start(options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || (0..EACH).for_each(|number| trace_step(thread, number, 1)));
            }
        });
        recorder.flush().unwrap();
        let recorded = recorder.stop().unwrap();
        assert_eq!(recorded.recorded + recorded.lost, THREADS * EACH);
        let (steps, lost) = steps(&folder);
        assert_eq!(lost, recorded.lost);
        let numbers: u64 = steps.values().map(|numbers| numbers.len() as u64).sum();
        assert_eq!(numbers, recorded.recorded);
        for numbers in steps.values() {
            assert!(numbers.is_sorted_by(|one, next| one < next));
        }
        if let Some(lines) = babeltrace(&folder) {
            assert_eq!(lines.len() as u64, recorded.recorded);
        }
    }
}

/// A stream that cannot be written loses what its ring has no room for, and says how much in the pages that it holds.
#[test]
fn losses_of_a_full_ring_are_counted_in_its_pages() {
    let _alone = alone();
    let top = tempfile::tempdir().unwrap();
    let (folder, memory) = (top.path().join("trace"), top.path().join("memory"));
    let options = Options::new(&folder, Mode::Stream)
        .ring_bytes(8 << 12)
        .memory(&memory)
        .events("ring:step");
    let recorder = Recorder::start(options).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    (0..10_000).for_each(|number| trace_step(0, number, 1));
    let lost = recorder.lost();
    assert!(lost > 9_000, "8 pages hold less than 1,000 records");
    let error = recorder.stop().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let (recovered, saved) = recover(&memory, top.path());
    assert_eq!(recovered.events, 10_000 - lost);
    let (steps, discarded) = steps(&saved);
    assert_eq!((steps[&0].len() as u64, discarded), (10_000 - lost, lost));
}

/// A recording whose names have no place says so, and is finished nevertheless.
#[test]
fn a_recording_without_names_is_finished() {
    let _alone = alone();
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("trace");
    let recorder = Recorder::start(Options::new(&folder, Mode::Stream).events("ring:step")).unwrap();
    std::fs::create_dir_all(folder.join(".kestrel/processes")).unwrap();
    trace_step(0, 0, 1);
    let error = recorder.stop().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::IsADirectory);
    std::fs::remove_dir(folder.join(".kestrel/processes")).unwrap();
    assert!(directory::open(&folder).unwrap().summary.is_some());
    assert_eq!(steps(&folder).0[&0], [0]);
}

/// An overwriting recording has the newest events, whenever it is written.
#[test]
fn a_flight_recorder_has_the_newest_events() {
    let _alone = alone();
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("trace");
    let options = Options::new(&folder, Mode::Overwrite)
        .ring_bytes(16 << 12)
        .events("ring:step");
    let recorder = Recorder::start(options).unwrap();
    for thread in 0..2 {
        std::thread::scope(|scope| {
            scope.spawn(|| (0..5_000).for_each(|number| trace_step(thread, number, 1)));
        });
        // The second thread goes on in the ring of the first.
        let dump = top.path().join(format!("dump-{thread}"));
        recorder.dump(&dump).unwrap();
        let (steps, lost) = steps(&dump);
        assert_eq!(lost, 0);
        let numbers = &steps[&thread];
        let first = 5_000 - numbers.len() as u64;
        assert!(first > 0 && numbers.iter().copied().eq(first..5_000));
    }
    assert!(!folder.exists());
    let recorded = recorder.stop().unwrap();
    assert_eq!((recorded.recorded, recorded.lost), (10_000, 0));
    assert_eq!(steps(&folder).0[&1].last(), Some(&4_999));
}

/// Copies that are made while the writer goes round are of one page each.
#[test]
fn dumps_in_full_flight_are_whole() {
    let _alone = alone();
    let top = tempfile::tempdir().unwrap();
    let options = Options::new(top.path().join("trace"), Mode::Overwrite)
        .ring_bytes(4 << 12)
        .events("ring:step");
    let recorder = Recorder::start(options).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                trace_step(7, number, number ^ 0x5555);
                number += 1;
            }
        });
        for _ in 0..50 {
            let dump = top.path().join("dump");
            recorder.dump(&dump).unwrap();
            let mut trace = directory::open(&dump).unwrap();
            let mut last = None;
            while let Some(record) = trace.reader.next().unwrap() {
                let [thread, number, more] =
                    ["thread", "number", "more"].map(|name| record.get(name).unwrap().as_u64().unwrap());
                assert_eq!((thread, more), (7, number ^ 0x5555));
                assert!(last.is_none_or(|last| last < number));
                last = Some(number);
            }
            assert_eq!(trace.reader.losses().packets_damaged, 0);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(recorder);
}

/// A signal's handler that emits: each of its events is recorded, lost or missed.
#[test]
#[allow(unsafe_code, reason = "a signal's handler and a timer")]
fn events_of_signal_handlers_are_recorded_or_counted() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    static THREAD: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(_: libc::c_int) {
        trace_other(1);
        trace_step(1, HANDLED.fetch_add(1, Ordering::Relaxed), 1);
    }
    let _alone = alone();
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("trace");
    let options = Options::new(&folder, Mode::Stream)
        .ring_bytes(4 << 20)
        .events("ring:{step,other}");
    let recorder = Recorder::start(options).unwrap();
    let missed = || step::event().missed() + other::event().missed();
    let before = missed();
    let mut emitted = 0;
    std::thread::scope(|scope| {
        let pthread = scope.spawn(|| {
            // The preparations of a thread before its first event are nothing that a handler may do.
            trace_step(0, 0, 1);
            trace_other(0);
            // SAFETY: a handler that calls what handlers may, sent to this thread alone.
            unsafe { libc::signal(libc::SIGUSR1, handler as extern "C" fn(libc::c_int) as usize) };
            // SAFETY: asks for the thread's own handle.
            THREAD.store(unsafe { libc::pthread_self() } as u64, Ordering::Release);
            let mut number = 1;
            while HANDLED.load(Ordering::Relaxed) < 2_000 {
                trace_step(0, number, 1);
                number += 1;
            }
            number + 1
        });
        let target = loop {
            match THREAD.load(Ordering::Acquire) {
                0 => std::thread::yield_now(),
                target => break target as libc::pthread_t,
            }
        };
        while HANDLED.load(Ordering::Relaxed) < 2_000 && !pthread.is_finished() {
            // SAFETY: the thread is there until it is joined.
            unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
            std::thread::yield_now();
        }
        emitted += pthread.join().unwrap();
    });
    emitted += 2 * HANDLED.load(Ordering::Relaxed);
    let recorded = recorder.stop().unwrap();
    assert_eq!(recorded.recorded + recorded.lost + missed() - before, emitted);
    assert_eq!(
        directory::open(&folder).map(|trace| trace.remarks.len()).unwrap(),
        0
    );
}

/// Takes what an image of a process's memory holds.
fn recover(image: &Path, top: &Path) -> (Recovered, std::path::PathBuf) {
    let image = Image::open(image).unwrap();
    let found = search(&image, None, &mut |_, _| {}).unwrap();
    assert_eq!(
        (found.sessions.len(), found.unexplained.len()),
        (1, 0),
        "{found:?}"
    );
    let saved = top.join("saved");
    let recovered = found.sessions[0].save(&image, &saved, &mut |_| {}).unwrap();
    (recovered, saved)
}

/// The name of the variable that has this program be a child of a test.
const CHILD: &str = "KESTREL_TEST_CHILD";
/// Threads of a child that emit for ever.
const THREADS: u64 = 3;
/// Events of a child that emits so many.
const SOME: u64 = 20_000;

/// The work of a test's child process: `WHAT FOLDER`.
#[test]
#[ignore = "a child of other tests"]
#[allow(unsafe_code, reason = "the death of a process")]
fn child() {
    let Ok(what) = std::env::var(CHILD) else { return };
    // SAFETY: numbers. It ends with the test that began it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let (what, folder) = what.split_once(' ').unwrap();
    let folder = Path::new(folder);
    let (way, end) = what.split_once('-').unwrap();
    let mode = if way == "overwrite" {
        Mode::Overwrite
    } else {
        Mode::Stream
    };
    let mut options = Options::new(folder.join("trace"), mode)
        .ring_bytes(1 << 20)
        .events("ring:step")
        .signals(end != "core");
    if end == "killed" {
        options = options.memory(folder.join("memory"));
    }
    let recorder = Recorder::start(options).unwrap();
    if matches!(end, "core" | "killed") {
        let count = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let count = &count;
                scope.spawn(move || {
                    for number in 0.. {
                        trace_step(thread, number, 1);
                        if number == SOME {
                            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
            while count.load(std::sync::atomic::Ordering::Relaxed) < THREADS {
                std::thread::yield_now();
            }
            println!("ready");
        });
    }
    (0..SOME).for_each(|number| trace_step(0, number, 1));
    match end {
        "exit" => std::process::exit(0),
        "panic" => {
            let panicked = std::thread::spawn(|| panic!("as the test wants it")).join();
            assert!(panicked.is_err());
            // No handler of ours, no way through `exit`.
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        "fault" => {
            // SAFETY: none: nothing is mapped there.
            unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
        }
        "fork" => {
            // SAFETY: the child calls what it may.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                (0..SOME).for_each(|number| trace_step(9, number, 1));
                std::process::exit(0);
            }
            let mut status = 0;
            // SAFETY: waits for the child, and writes the number.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            assert_eq!(status, 0);
            drop(recorder);
        }
        signal => {
            // SAFETY: a number.
            unsafe { libc::raise(signal.parse().unwrap()) };
        }
    }
}

fn start(what: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, format!("{what} {}", folder.display()))
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn ends_of_a_process_leave_all_of_its_events() {
    use std::os::unix::process::ExitStatusExt as _;
    for way in ["stream", "overwrite"] {
        for (end, signal) in [
            ("exit", None),
            ("panic", None),
            ("fork", None),
            ("fault", Some(libc::SIGSEGV)),
            ("6", Some(libc::SIGABRT)),
            ("15", Some(libc::SIGTERM)),
        ] {
            let top = tempfile::tempdir().unwrap();
            let what = format!("{way}-{end}");
            let status = start(&what, top.path()).wait().unwrap();
            assert_eq!(status.signal(), signal, "{what}: {status}");
            let (steps, lost) = steps(&top.path().join("trace"));
            assert_eq!(lost, 0, "{what}");
            assert_eq!(steps.len(), 1, "{what}");
            assert!(
                steps[&0].iter().copied().eq(0..SOME),
                "{what}: {}",
                steps[&0].len()
            );
        }
    }
}

/// Checks the image of a process that emitted for ever: of each thread it has the newest events without a gap, in whole packets and one that was cut.
fn check_flight(image: &Path, top: &Path) {
    let (recovered, saved) = recover(image, top);
    assert_eq!(
        (recovered.missing, recovered.damaged, recovered.torn),
        (0, 0, 0),
        "{recovered:?}"
    );
    assert!(recovered.cut <= THREADS && recovered.whole > 0, "{recovered:?}");
    let (steps, lost) = steps(&saved);
    assert_eq!((steps.len() as u64, lost), (THREADS, 0));
    for numbers in steps.values() {
        let (first, last) = (numbers[0], *numbers.last().unwrap());
        assert!(last >= SOME, "the thread had come so far before");
        assert!(numbers.iter().copied().eq(first..=last));
    }
}

fn wait_until_ready(child: &mut Child) {
    let mut text = String::new();
    let out = child.stdout.as_mut().unwrap();
    while !text.contains("ready") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{text}");
        text.push(char::from(byte[0]));
    }
}

/// Killed by a signal that no process can handle: what its rings held is in the file that they lie in.
#[test]
fn a_killed_process_leaves_its_rings_in_their_file() {
    let top = tempfile::tempdir().unwrap();
    let mut child = start("overwrite-killed", top.path());
    wait_until_ready(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    check_flight(&top.path().join("memory"), top.path());
}

/// The kernel's own image of a process that dies in full flight. Skipped where it makes none.
#[test]
#[allow(unsafe_code, reason = "a limit and a signal")]
fn a_core_dump_has_the_records_of_the_rings() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() != "core" {
        println!("skipped: images of processes go to {}", pattern.trim());
        return;
    }
    let top = tempfile::tempdir().unwrap();
    let mut child = start("overwrite-core", top.path());
    wait_until_ready(&mut child);
    let unlimited = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    let pid = child.id() as libc::pid_t;
    // SAFETY: reads the structure.
    let allowed = unsafe { libc::prlimit(pid, libc::RLIMIT_CORE, &unlimited, std::ptr::null_mut()) };
    // Shells have what they run in the background ignore SIGQUIT, and children inherit that.
    // SAFETY: a number.
    unsafe { libc::kill(pid, libc::SIGABRT) };
    child.wait().unwrap();
    let core = ["core".to_owned(), format!("core.{pid}")].map(|name| top.path().join(name));
    let Some(core) = core.iter().find(|core| core.exists()) else {
        println!(
            "skipped: no image of the process was made (its limit could be set: {})",
            allowed == 0
        );
        return;
    };
    check_flight(core, top.path());
}
