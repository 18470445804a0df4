//! `-- COMMAND`, `-p`, `--duration` and Ctrl-C: whose events are recorded, from when to when, and how it ends.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::time::{Duration, Instant};
use vm_tests::{
    getppid_calls, kestrel,
    recording::{Recorder, counts, missed, record_command},
    shell, until,
};

const GETPPID: &str = "syscalls:sys_enter_getppid";
/// Shells ask for their parent, too, and become what they run last.
const GETPPID_OF_CALLS: &str = "syscalls:sys_enter_getppid /comm == \"calls\"/";

#[test]
fn children_are_followed_and_strangers_are_not() {
    let mut stranger = std::process::Command::new("calls")
        .args(["getppid", "100000000"])
        .spawn()
        .unwrap();
    let line = "calls getppid 100; (calls getppid 20 & calls getppid 3; wait); sh -c 'calls getppid 1000'";
    let (records, counts) = record_command(&["-e", GETPPID_OF_CALLS], &["sh", "-c", line]);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let mut by_process = std::collections::BTreeMap::new();
    for record in &records {
        assert_ne!(record.pid, u64::from(stranger.id()));
        *by_process.entry(record.pid).or_insert(0) += 1;
    }
    let mut each: Vec<usize> = by_process.into_values().collect();
    each.sort_unstable();
    if counts.missed == 0 {
        assert_eq!(each, [3, 20, 100, 1000]);
    }
    assert!(counts.explain(each.iter().sum(), 1123), "{each:?}: {counts:?}");
    assert_eq!(counts.lost, 0);
}

#[test]
fn tracing_begins_at_the_exec() {
    let options = ["-e", "raw_syscalls:sys_enter { record(args.id, comm) }"];
    let (records, counts) = record_command(&options, &["calls", "getppid", "5"]);
    assert!(records.len() as u64 + counts.missed > 5);
    for record in &records {
        assert_eq!(record.text("comm"), "calls", "before its exec: {record:?}");
    }
    let asked = records.iter().filter(|r| r.number("id") == 110).count();
    assert!(counts.explain(asked, 5), "{asked}: {counts:?}");
    // To its exit: exit_group is the last call.
    assert!(
        counts.missed > 0 || records.last().unwrap().number("id") == 231,
        "{records:?}"
    );
}

#[test]
fn a_command_that_fails_is_reported() {
    for (line, words) in [("exit 3", "exit status: 3"), ("kill -9 $$", "signal: 9")] {
        let run = kestrel(&[
            "record",
            "-o",
            "/tmp/status.trace",
            "-e",
            GETPPID,
            "--",
            "sh",
            "-c",
            line,
        ]);
        assert_eq!(run.code, Some(1), "{}", run.err);
        assert!(run.err.contains(words), "{}", run.err);
    }
    let run = kestrel(&["record", "-o", "/tmp/status.trace", "-e", GETPPID, "--", "true"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn interrupting_writes_everything() {
    let recorder = Recorder::start("interrupted", &["-a", "-e", GETPPID_OF_CALLS]);
    shell("calls getppid 3000").success();
    let (records, counts, printed) = recorder.stop();
    let most = records
        .iter()
        .map(|r| r.pid)
        .collect::<std::collections::BTreeSet<_>>();
    let largest = most
        .iter()
        .map(|pid| records.iter().filter(|r| r.pid == *pid).count())
        .max();
    assert!(
        counts.explain(largest.unwrap_or_default(), 3000),
        "{largest:?}:\n{printed}"
    );
    assert_eq!(counts.lost, 0);
}

#[test]
fn interrupting_ends_the_command() {
    let _not_there = std::fs::remove_file("/tmp/called");
    let recorder = Recorder::start(
        "ended",
        &[
            "-e",
            GETPPID,
            "--",
            "sh",
            "-c",
            "calls getppid 50; touch /tmp/called; sleep 90000",
        ],
    );
    until("the calls", || std::path::Path::new("/tmp/called").exists());
    let (records, counts, printed) = recorder.stop();
    assert!(
        records.len() as u64 + counts.missed >= 50,
        "{}:\n{printed}",
        records.len()
    );
    // They were asked to end, and may take a moment.
    until("the end of the command's children", || {
        shell("ps | grep -c '[s]leep 90000'").out.trim() == "0"
    });
}

#[test]
fn one_process_with_all_its_threads() {
    let pid = std::process::id().to_string();
    let recorder = Recorder::start("process", &["-p", &pid, "-e", GETPPID]);
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(|| getppid_calls(300)))
        .collect();
    getppid_calls(100);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    shell("calls getppid 500").success();
    let (records, counts, printed) = recorder.stop();
    assert!(
        counts.explain(records.len(), 1000),
        "{} of 1000:\n{printed}",
        records.len()
    );
    assert!(records.iter().all(|r| r.pid == u64::from(std::process::id())));
}

#[test]
fn a_recording_of_a_process_ends_with_it() {
    let mut process = std::process::Command::new("sleep").arg("90000").spawn().unwrap();
    let pid = process.id().to_string();
    let recorder = Recorder::start("gone", &["-p", &pid, "-e", "sched:sched_process_exit"]);
    process.kill().unwrap();
    let ended = recorder.wait();
    process.wait().unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("1 event in "), "{}", ended.err);
}

#[test]
fn durations_end_by_themselves() {
    let begun = Instant::now();
    let run = kestrel(&[
        "record",
        "-o",
        "/tmp/duration.trace",
        "-a",
        "--duration",
        "300ms",
        "-e",
        "sched:sched_switch",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn watching_shows_each_event_once() {
    let run = kestrel(&["trace", "-e", GETPPID, "--", "calls", "getppid", "2000"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let shown = run.out.lines().filter(|l| l.contains(GETPPID)).count() as u64;
    assert!(
        shown <= 2000 && shown + missed(&run.err) >= 2000,
        "{shown}: {}",
        run.err
    );
}

#[test]
fn where_nothing_came_there_is_a_hint() {
    let own = std::process::id().to_string();
    let never = "syscalls:sys_enter_getppid /pid == 0/";
    let cases: [(&[&str], &str); 3] = [
        (&["--", "true"], "none of the events came; -a records"),
        (
            &["-p", &own, "--duration", "100ms"],
            "none of the events came; without -p",
        ),
        (
            &["--duration", "100ms"],
            "none of the events came, or no predicate held",
        ),
    ];
    for (options, printed) in cases {
        for verb in [&["trace"][..], &["record", "-o", "/tmp/none"]] {
            let run = kestrel(&[verb, &["-e", never], options].concat());
            assert_eq!(run.code, Some(0), "{verb:?} {options:?}: {}", run.err);
            assert!(run.err.contains(printed), "{verb:?} {options:?}: {}", run.err);
            assert_eq!(run.out, "", "{verb:?} {options:?}");
        }
    }
    let counted = kestrel(&["trace", "-e", &format!("{never} {{ count() }}"), "--", "true"]);
    assert!(!counted.err.contains("none of the events"), "{}", counted.err);
    let _ = std::fs::remove_dir_all("/tmp/none");
}

#[test]
fn reports_count_the_records() {
    let options = [
        "record",
        "-o",
        "/tmp/report.trace",
        "-e",
        GETPPID,
        "--",
        "calls",
        "getppid",
        "1234",
    ];
    let run = kestrel(&options);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let recorded = counts(&run.err);
    assert!(recorded.explain(recorded.recorded as usize, 1234), "{recorded:?}");
    let report = kestrel(&["report", "--format", "json", "/tmp/report.trace"]).success();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["records"], recorded.recorded, "{report}");
    let report = kestrel(&["report", "/tmp/report.trace"]).success();
    assert!(report.contains("calls"), "{report}");
}
