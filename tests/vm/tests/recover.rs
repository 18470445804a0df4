//! Recovery on a kernel that runs: what a recorder that does not answer any more has in its buffers, and a session that lost its name; dead kernels are `cargo xtask recovery`'s.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::kernel::bpf::{Link, Program, link_ids, program_ids};
use std::fs;
use vm_tests::{
    kestrel,
    recording::{Recorder, records},
    run, shell,
};

const CALLS: usize = 3000;

#[test]
fn buffers_of_a_stopped_recorder_are_recovered_live() {
    let out = "/tmp/live.recovered";
    let _ = fs::remove_dir_all(out);
    let event = "syscalls:sys_enter_getppid /comm == \"calls\"/";
    let recorder = Recorder::start(
        "held",
        &[
            "-a",
            "--overwrite",
            "--buffer-size",
            "4M",
            "-e",
            event,
            "-e",
            "sched:sched_process_*",
        ],
    );
    // It keeps the session's last references and does not run.
    recorder.hold();
    run("calls", &["getppid", &CALLS.to_string()]).success();
    let messages = kestrel(&["recover", "--live", "-o", out]).success();
    let kept = |directory: &str| {
        let records = records(directory);
        records.iter().filter(|r| r.event.contains("getppid")).count()
    };
    let recovered = kept(out);
    assert!(messages.contains("0 missing between them"), "{messages}");
    recorder.go_on();
    let (all, counts, _) = recorder.stop();
    assert_eq!(counts.overwritten, 0);
    let recorded = all.iter().filter(|r| r.event.contains("getppid")).count();
    assert_eq!(
        recovered, recorded,
        "recovering takes nothing away, and nothing is missing from it"
    );
    assert!(
        counts.explain(recovered, CALLS),
        "{recovered} of {CALLS}: {counts:?}"
    );
}

#[test]
fn where_there_is_nothing_it_says_so() {
    let live = || kestrel(&["recover", "--live", "-o", "/tmp/nothing.recovered"]);
    let mut nothing = live();
    // Sessions of other tests are there until their programs have come off, in the background.
    for _ in 0..200 {
        if nothing.code != Some(0) {
            break;
        }
        let _ = fs::remove_dir_all("/tmp/nothing.recovered");
        std::thread::sleep(std::time::Duration::from_millis(200));
        nothing = live();
    }
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(
        nothing.err.contains("no session is in this kernel"),
        "{nothing:?}"
    );
    let text = kestrel(&["recover", "/proc/version", "-o", "/tmp/nothing.recovered"]);
    assert_eq!(text.code, Some(1), "{text:?}");
    assert!(!fs::exists("/tmp/nothing.recovered").unwrap_or(true));
}

/// Somebody removed a session's pins by hand; its programs run on for as long as anybody holds them.
#[test]
fn a_session_without_its_pins_is_recovered_live() {
    let table = r#"
        buffer main { size = 1M }
        table t { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, text = comm) } sched:sched_process_exec { record() } }
    "#;
    let out = "/tmp/lost.recovered";
    let _ = fs::remove_dir_all(out);
    fs::write("/tmp/lost.kst", table).unwrap();
    kestrel(&["start", "lost", "/tmp/lost.kst"]).success();
    shell("calls getppid 500").success();
    let held: Vec<Link> = link_ids()
        .unwrap()
        .into_iter()
        .map(|id| Link::from_id(id).unwrap())
        .collect();
    shell("rm -r /sys/fs/bpf/kestrel/lost").success();
    shell("calls getppid 700").success();
    assert_eq!(kestrel(&["status"]).code, Some(1), "it has no name any more");
    let messages = kestrel(&["recover", "--live", "-o", out]).success();
    assert!(
        messages.contains("session lost (") && messages.contains("0 missing between them"),
        "{messages}"
    );
    let found = records(out);
    let calls: Vec<_> = found.iter().filter(|r| r.event.contains("getppid")).collect();
    assert!(calls.iter().all(|r| r.text("text") == "calls"));
    // On kernels of 7.x a preempted program makes the kernel skip hits of its CPU.
    let missed: u64 = program_ids()
        .unwrap()
        .into_iter()
        .filter_map(|id| Program::from_id(id).ok()?.info().ok())
        .map(|info| info.recursion_misses)
        .sum();
    let kept = calls.len() as u64;
    assert!(
        kept <= 1200 && kept + missed >= 1200,
        "{kept} and {missed} missed"
    );
    drop(held);
    kestrel(&["start", "lost", "/tmp/lost.kst"]).success();
    kestrel(&["stop"]).success();
}
