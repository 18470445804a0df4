//! Stacks of code without frame pointers: copied by the recorder, unwound when it ends.

#![allow(clippy::unwrap_used, reason = "a test")]

use vm_tests::kestrel;
use vm_tests::recording::{Record, record, record_command};

const CALLS: &str = "50";

/// The names of a record's user frames, without their offsets.
fn frames(record: &Record) -> Vec<String> {
    let stack = record.fields["ustack"].as_array().unwrap();
    let name = |frame: &serde_json::Value| {
        let frame = frame.as_str().unwrap();
        frame.split(['+', ' ']).next().unwrap_or(frame).to_owned()
    };
    stack.iter().map(name).collect()
}

/// Which of the twelve functions follow one another, from the innermost on.
fn levels(record: &Record) -> Vec<u32> {
    let number = |name: &String| name.split("level_").nth(1)?.parse().ok();
    frames(record).iter().filter_map(number).collect()
}

fn recorded(how: &[&str]) -> Vec<Record> {
    let mut options = vec!["-e", "syscalls:sys_enter_getppid"];
    options.extend_from_slice(how);
    let (records, counts) = record_command(&options, &["calls", "deep", CALLS]);
    assert_eq!(records.len() as u64 + counts.missed, 50);
    records
}

#[test]
fn copied_stacks_have_every_function_and_frame_pointers_do_not() {
    let whole: Vec<u32> = (1..=12).rev().collect();
    for how in [&["--call-graph", "dwarf"][..], &["--call-graph", "dwarf,2k"]] {
        for record in recorded(how) {
            assert_eq!(levels(&record), whole, "{:?}", frames(&record));
            let last = frames(&record).pop().unwrap();
            assert!(last.contains("_start"), "{:?}", frames(&record));
        }
    }
    let broken = recorded(&["--call-graph", "fp"]);
    assert!(
        broken.iter().any(|record| levels(record) != whole),
        "this program has frame pointers: the test shows nothing"
    );
}

#[test]
fn a_copy_that_is_too_short_says_so() {
    for record in recorded(&["--call-graph", "dwarf,64"]) {
        let frames = frames(&record);
        assert_eq!(
            frames.last().map(String::as_str),
            Some("(truncated)"),
            "{frames:?}"
        );
        assert!(levels(&record).len() < 12, "{frames:?}");
    }
}

#[test]
fn live_traces_unwind_stacks() {
    let run = kestrel(&[
        "trace",
        "--call-graph",
        "dwarf",
        "-e",
        "syscalls:sys_enter_getppid",
        "--format",
        "json",
        "--",
        "calls",
        "deep",
        "5",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let records: Vec<Record> = run.out.lines().map(record).collect();
    assert!(!records.is_empty(), "{}", run.err);
    let whole: Vec<u32> = (1..=12).rev().collect();
    for record in records {
        assert_eq!(levels(&record), whole, "{:?}", frames(&record));
    }
}
