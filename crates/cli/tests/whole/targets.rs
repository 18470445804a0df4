//! Options that say whose events are wanted, while recording and of a recording.

use crate::command::{WorkFolder, needs_tracing};
use serde_json::Value;

const SWITCH: &str = "sched:sched_switch";

fn lines(place: &WorkFolder, options: &[&str]) -> Vec<Value> {
    place.json_lines(&[&["print"], options].concat())
}

/// Whether a record of these events is about a thread that does not run in it.
fn is_about(record: &Value, tid: &Value) -> bool {
    let names = ["pid", "next_pid", "child_pid"];
    names.iter().any(|name| record["fields"][name] == *tid)
}

#[test]
fn a_recording_has_the_events_of_and_about_a_process() {
    needs_tracing!();
    let place = WorkFolder::new();
    let events = "sched:sched_switch,sched:sched_waking,sched:sched_process_fork,sched:sched_process_exec";
    let script = "sleep 0.05; sleep 0.05 & wait";
    place
        .run(&["record", "-a", "-e", events, "--", "sh", "-c", script])
        .succeeds();
    let all = lines(&place, &[]);
    let exec = all
        .iter()
        .find(|record| record["event"] == "sched:sched_process_exec" && record["comm"] == "sleep");
    let pid = exec.unwrap()["pid"].clone();
    let number = pid.to_string();
    let expected: Vec<&Value> = all
        .iter()
        .filter(|record| record["pid"] == pid || is_about(record, &pid))
        .collect();
    let about = expected.iter().filter(|record| record["pid"] != pid);
    assert!(about.count() >= 3, "{expected:?}");
    let expected: Vec<Value> = expected.into_iter().cloned().collect();
    let strictly: Vec<Value> = expected
        .iter()
        .filter(|record| record["pid"] == pid)
        .cloned()
        .collect();
    for option in ["-p", "-t"] {
        assert_eq!(lines(&place, &[option, &number]), expected);
        assert_eq!(lines(&place, &[option, &number, "--only-own"]), strictly);
    }
}

#[test]
fn a_process_is_recorded_with_the_switches_to_it() {
    needs_tracing!();
    let place = WorkFolder::new();
    let mut target = std::process::Command::new("sh")
        .args(["-c", "while true; do sleep 0.01; done"])
        .spawn()
        .unwrap();
    let pid = target.id();
    let answer = place.run(&[
        "record",
        "-e",
        SWITCH,
        "-p",
        &pid.to_string(),
        "--duration",
        "300ms",
    ]);
    target.kill().unwrap();
    target.wait().unwrap();
    answer.succeeds();
    let all = lines(&place, &[]);
    let to = all.iter().filter(|record| record["fields"]["next_pid"] == pid);
    let from = all.iter().filter(|record| record["fields"]["prev_pid"] == pid);
    let (to, from) = (to.count(), from.count());
    // It may switch from a thread that waits to itself through none other; else they alternate.
    assert!(
        to.abs_diff(from) <= 1 && to >= 2 && to + from == all.len(),
        "{to} {from} {all:?}"
    );
}

#[test]
fn a_command_beside_processes_says_for_how_long() {
    needs_tracing!();
    let place = WorkFolder::new();
    let mut target = std::process::Command::new("sh")
        .args(["-c", "while true; do sleep 0.01; done"])
        .spawn()
        .unwrap();
    let pid = target.id().to_string();
    for option in ["-p", "-t"] {
        place
            .run(&["record", "-e", SWITCH, "--only-own", option, &pid, "sleep", "0.3"])
            .succeeds();
        let all = lines(&place, &[]);
        assert!(!all.is_empty());
        assert!(
            all.iter()
                .all(|record| record["fields"]["prev_pid"] == target.id()),
            "{all:?}"
        );
    }
    target.kill().unwrap();
    target.wait().unwrap();
}

#[test]
fn targets_that_do_not_run_are_named() {
    needs_tracing!();
    let place = WorkFolder::new();
    let fails = |options: &[&str], code: i32, printed: &[&str]| {
        let options = [&["record", "-e", SWITCH], options].concat();
        place.run(&options).fails(code, printed);
    };
    fails(
        &["-p", "no-such-name"],
        1,
        &["no-such-name", "none with this name"],
    );
    fails(&["-t", "4194304"], 1, &["thread 4194304", "no such thread"]);
    fails(&["-C", "8000"], 1, &["CPU 8000", "does not run"]);
    fails(&["-C", ""], 2, &["0,2-3"]);
    fails(&["-p", "1", "-t", "1"], 2, &["cannot be used with"]);
    let nobodys = &["--only-own has nothing to leave out", "-- COMMAND"];
    fails(&["--only-own"], 2, nobodys);
    fails(&["--only-own", "-C", "0"], 2, nobodys);
    fails(&["--only-own", "-a", "--", "true"], 2, nobodys);
    place.run(&["record", "-e", SWITCH, "--", "true"]).succeeds();
    place
        .run(&["print", "--only-own"])
        .fails(2, &["--only-own has nothing to leave out", "-p or -t"]);
    place
        .run(&["record", "-e", "sched:sched_waking /is_target(args.pid)/", "-a"])
        .fails(2, &["no processes are selected", "-p PID"]);
}
