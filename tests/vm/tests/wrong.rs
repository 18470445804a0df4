//! The wrong: each gets a clear sentence and its exit code, and leaves nothing attached.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel_kernel::bpf::{link_ids, map_ids, program_ids};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};
use vm_tests::{
    Run, TRACEFS, kestrel,
    recording::{Recorder, records},
    shell, until,
};

/// The kernel's BPF objects: links, programs, maps.
fn held() -> [BTreeSet<u32>; 3] {
    [
        link_ids().unwrap().into_iter().collect(),
        program_ids().unwrap().into_iter().collect(),
        map_ids().unwrap().into_iter().collect(),
    ]
}

/// Checks that nothing is left of what `work` did; the kernel frees programs and maps after a grace period.
fn leaves_nothing<R>(work: impl FnOnce() -> R) -> R {
    let before = held();
    let result = work();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let after = held();
        let left: Vec<Vec<&u32>> = after
            .iter()
            .zip(&before)
            .map(|(a, b)| a.difference(b).collect())
            .collect();
        if left.iter().all(Vec::is_empty) {
            return result;
        }
        assert!(Instant::now() < end, "links, programs, maps left: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command that must fail with this code and these words, and leave nothing.
fn fails(arguments: &[&str], code: i32, words: &[&str]) -> Run {
    let run = leaves_nothing(|| kestrel(arguments));
    assert_eq!(run.code, Some(code), "{arguments:?}: {}", run.err);
    for word in words {
        assert!(
            run.err.contains(word),
            "{arguments:?}: no {word:?} in: {}",
            run.err
        );
    }
    assert!(!run.err.contains("panicked"), "{}", run.err);
    run
}

fn record(event: &str) -> [&str; 7] {
    ["record", "-o", "/tmp/wrong.trace", "-e", event, "--", "true"]
}

#[test]
fn unknown_names_are_named() {
    fails(&record("sched:sched_swich"), 2, &["sched_swich", "sched_switch"]);
    fails(&record("kprobe:vfs_reat"), 2, &["vfs_reat"]);
    fails(&record("fentry:vfs_reat"), 2, &["vfs_reat"]);
    fails(
        &record("fexit:vfs_read+4"),
        2,
        &["fexit:vfs_read+0x4", "kprobe:FUNCTION+OFFSET"],
    );
    fails(&record("nokind:vfs_read"), 2, &["nokind"]);
    fails(&record("nothing:*"), 2, &["nothing"]);
}

#[test]
fn bad_predicates_and_blocks_are_underlined() {
    fails(&record("sched:sched_switch /prev_pid ==/"), 2, &["^"]);
    fails(
        &record("sched:sched_switch /args.no_field == 1/"),
        2,
        &["no_field", "prev_pid"],
    );
    fails(
        &record("sched:sched_switch { recrod() }"),
        2,
        &["recrod", "record"],
    );
    fails(
        &record("kprobe:vfs_read { record(args.nothing) }"),
        2,
        &["nothing", "count"],
    );
    fails(
        &record("kprobe:vfs_read { record(args.file->nothing) }"),
        2,
        &["nothing"],
    );
}

#[test]
fn places_that_cannot_be_written_are_named() {
    fails(
        &[
            "record",
            "-o",
            "/proc/nowhere/trace",
            "-e",
            "sched:sched_switch",
            "--",
            "true",
        ],
        1,
        &["/proc/nowhere"],
    );
    fails(&["print", "/nowhere"], 1, &["/nowhere"]);
    fails(&["report", "/nowhere"], 1, &["/nowhere"]);
}

#[test]
fn commands_that_are_not_there_are_named() {
    fails(
        &[
            "record",
            "-o",
            "/tmp/wrong.trace",
            "-e",
            "sched:sched_switch",
            "--",
            "no-such-program",
        ],
        1,
        &["no-such-program"],
    );
}

#[test]
fn a_full_disk_leaves_whole_packets() {
    assert_eq!(
        shell("mkdir -p /tmp/small && mount -t tmpfs -o size=256k tmpfs /tmp/small").code,
        Some(0)
    );
    let arguments = [
        "record",
        "-o",
        "/tmp/small/trace",
        "-e",
        "raw_syscalls:sys_enter",
        "--",
        "calls",
        "getppid",
        "50000",
    ];
    let run = leaves_nothing(|| kestrel(&arguments));
    let kept = kestrel(&["print", "--format", "json", "/tmp/small/trace"]);
    let size = shell("du -sk /tmp/small/trace; ls -l /tmp/small/trace").out;
    shell("umount /tmp/small").success();
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.err.contains("No space left"), "{}", run.err);
    assert!(run.err.contains("/tmp/small/trace/main_"), "{}", run.err);
    assert!(run.err.contains("whole packets were kept"), "{}", run.err);
    let lines = kept.out.lines().count();
    assert!(lines > 1000, "{lines} records kept in\n{size}\n{}", kept.err);
    assert!(!kept.err.contains("damaged"), "{}", kept.err);
}

#[test]
fn without_tracefs_the_rest_works() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let places: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|place| place.starts_with("/sys/kernel/tracing") || place.starts_with("/sys/kernel/debug"))
        .collect();
    // Other tests may have left something open there for a moment.
    for place in places.iter().rev() {
        until("the unmounting", || {
            shell(&format!("umount {place}")).code == Some(0)
        });
    }
    let failed = !Path::new(TRACEFS).join("events").exists();
    let run = leaves_nothing(|| kestrel(&record("sched:sched_switch")));
    let raw = kestrel(&record("rawtracepoint:sched_switch"));
    let _ = shell(&format!(
        "mount -t debugfs nodev /sys/kernel/debug; mount -t tracefs nodev {TRACEFS}"
    ));
    assert!(Path::new(TRACEFS).join("events").exists());
    assert!(failed, "tracefs is still there: {places:?}");
    // Kestrel may mount it by itself; otherwise it says what is missing.
    println!("without tracefs: {:?} {}", run.code, run.err);
    if run.code != Some(0) {
        assert!(run.err.contains("tracefs"), "{}", run.err);
        assert!(matches!(run.code, Some(3 | 4)), "{:?}", run.code);
    }
    assert_eq!(raw.code, Some(0), "{}", raw.err);
}

#[test]
fn a_killed_recorder_leaves_nothing_attached() {
    leaves_nothing(|| {
        let mut recorder = Recorder::start(
            "killed",
            &["-a", "-e", "sched:sched_switch", "-e", "kprobe:vfs_read"],
        );
        recorder.kill();
        assert_eq!(recorder.wait().code, None);
    });
    // The part written before the kill is a trace all the same, but for its last words.
    let run = kestrel(&["print", "/tmp/killed.trace"]);
    assert!(matches!(run.code, Some(0 | 1)), "{:?} {}", run.code, run.err);
    assert!(!run.err.contains("panicked"), "{}", run.err);
}

#[test]
fn recording_leaves_nothing_attached() {
    for event in [
        "sched:sched_switch",
        "kprobe:vfs_read",
        "kretprobe:vfs_read",
        "fentry:vfs_read",
        "k:vfs_r*",
        "kprobe:vfs_read { record(kstack, ustack, str(arg1)) }",
        "block:block_rq_issue",
    ] {
        let run = leaves_nothing(|| kestrel(&record(event)));
        assert_eq!(run.code, Some(0), "{event}: {}", run.err);
        let _ = records("/tmp/wrong.trace");
    }
}

/// Of probes that are not here the messages are those that scripts' tests know; a raw tracepoint may be missing beside another, as a pattern may.
#[test]
fn missing_functions_and_raw_tracepoints_are_told_as_bpftrace_tells() {
    let refused = |options: &[&str], program: &str| {
        let mut words = vec!["run"];
        words.extend_from_slice(options);
        words.extend_from_slice(&["-e", program]);
        let run = kestrel(&words);
        assert_ne!(run.code, Some(0), "{program}");
        run.err
    };
    let nothing = "Probe has no valid attach points. If this is expected";
    for (options, program, said) in [
        (
            &[][..],
            "kprobe:nomod:vfs_read { }",
            "specified module nomod in probe kprobe:nomod:vfs_read is not loaded.",
        ),
        (
            &[],
            "fentry:nomod:vfs_read { }",
            "No matches for fentry nomod:vfs_read.",
        ),
        (
            &["--traceable-functions", "/dev/null"],
            "kprobe:vfs_rea* { }",
            nothing,
        ),
        (
            &["--traceable-functions", "/dev/null"],
            "fentry:vfs_rea* { }",
            nothing,
        ),
        (
            &["--traceable-functions", "/dev/null"],
            "fentry:vfs_read { }",
            "No matches for fentry vfs_read.",
        ),
        (&[], "rawtracepoint:nonsense { }", nothing),
    ] {
        let err = refused(options, program);
        assert!(err.contains(said), "{program}: {err}");
    }
    let both = "rawtracepoint:sys_enter, rawtracepoint:nonsense, begin { exit(); }";
    let run = kestrel(&["run", "-e", both]);
    assert!(
        run.code == Some(0) && run.err.contains("Attached 2 probes\n"),
        "{}",
        run.err
    );
}
