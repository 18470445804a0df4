//! `record --switch-output`: recordings in several directories, which put together hold every call once.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::{
    collections::BTreeSet,
    fs,
    process::{Child, Command},
};
use vm_tests::{
    kestrel,
    recording::{Record, Recorder, records},
    until,
};

/// Calls of one process, numbered by their argument.
const CALLS: u64 = 5_000;
/// Processes, and between them directories.
const PROCESSES: u64 = 3;
const EVENT: &str = "syscalls:sys_enter_lseek /comm == \"calls\"/ { record(args.offset) }";
const PLACE: &str = "/tmp/switching";

/// The directories of the recording, in the order in which they were begun.
fn parts() -> Vec<String> {
    let entries = fs::read_dir(PLACE).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned());
    let parts: BTreeSet<_> = paths.filter(|path| path.contains("/part.trace.")).collect();
    parts.into_iter().collect()
}

fn calling() -> Child {
    Command::new("calls")
        .args(["seek", &CALLS.to_string()])
        .spawn()
        .unwrap()
}

/// The number behind a word in the line about all directories.
fn in_all(printed: &str, word: &str) -> u64 {
    let line = printed
        .lines()
        .find(|line| line.contains(" in all"))
        .unwrap_or_else(|| panic!("{printed}"));
    let mut words = line.split_whitespace().skip_while(|it| *it != word);
    let number = words.nth(1).unwrap_or_else(|| panic!("{line}"));
    number.replace(',', "").parse().unwrap()
}

/// Records while calls are made, a new directory begun meanwhile and after each process; what the parts hold, and merged the whole.
fn recorded(options: &[&str]) -> (Vec<Record>, Vec<Record>, String) {
    _ = fs::remove_dir_all(PLACE);
    fs::create_dir(PLACE).unwrap();
    let mut arguments = vec!["-a", "-e", EVENT, "--switch-output"];
    arguments.extend(options);
    let recorder = Recorder::start("switching/part", &arguments);
    for process in 0..PROCESSES {
        let mut calls = calling();
        recorder.switch();
        until("another directory", || parts().len() as u64 == 2 * process + 2);
        assert!(calls.wait().unwrap().success());
        recorder.switch();
        until("a directory for the next", || {
            parts().len() as u64 == 2 * process + 3
        });
    }
    recorder.interrupt();
    let run = recorder.wait();
    assert_eq!(run.code, Some(0), "{}", run.err);
    let parts = parts();
    let of_parts = parts.iter().flat_map(|part| records(part)).collect();
    let whole = "/tmp/switching/whole";
    let mut merge = vec!["merge", "-o", whole];
    merge.extend(parts.iter().map(String::as_str));
    kestrel(&merge).success();
    (in_order(of_parts), in_order(records(whole)), run.err)
}

/// At a switch one ring is drained after the other, so that a thread that changes its CPU meanwhile may have a later call in the part before.
fn in_order(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| (record.time, record.cpu));
    records
}

#[test]
fn parts_put_together_hold_every_call_once() {
    for options in [&[][..], &["--compress"]] {
        let (of_parts, together, printed) = recorded(options);
        assert!(
            together == of_parts,
            "what was in the parts is in the whole: {printed}"
        );
        let calls: BTreeSet<_> = together
            .iter()
            .map(|record| (record.pid, record.number("offset")))
            .collect();
        assert_eq!(calls.len(), together.len(), "a call is there twice: {printed}");
        let (kept, all) = (together.len() as u64, PROCESSES * CALLS);
        // Missing records were reported. Hits of other programs may be among the missed ones.
        assert!(
            kept <= all && kept + in_all(&printed, "lost") + in_all(&printed, "missed") >= all,
            "{kept}: {printed}"
        );
    }
}
