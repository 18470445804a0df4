//! `kestrel top` in guests: its counts are those of a program, on a terminal and in batches; a session's are those of its buffers.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::process::Command;
use testkit::terminal::Console;
use vm_tests::{getpriority_calls, kestrel};

const EVENT: &str = "syscalls:sys_enter_getpriority";
const CALLS: u64 = 3_000;

/// The number in a column of an event's row.
fn number(shown: &str, column: usize) -> u64 {
    let line = shown.lines().find(|line| line.trim_start().starts_with(EVENT));
    let word = line.and_then(|line| line.split_whitespace().nth(column));
    word.and_then(|word| word.replace(',', "").parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_view_of_own_events_and_one_of_a_session_have_every_call() {
    let pid = std::process::id().to_string();
    let event = format!("{EVENT} /pid == {pid}/");
    let mut command = Command::new("kestrel");
    command.args(["top", "-I", "500ms", "-e", &event]);
    let mut console = Console::start(command, 100, 24);
    console.until(|shown| shown.contains("no event has come yet"));
    getpriority_calls(CALLS).unwrap();
    let shown = console.until(|shown| number(shown, 2) + number(shown, 4) >= CALLS);
    assert!(number(&shown, 2) <= CALLS, "{shown}");
    console.press("\r");
    console.until(|shown| shown.contains("by processes") && shown.contains(&pid));
    console.press("q");
    assert!(console.wait().success());
    assert!(console.is_given_back());

    std::fs::write(
        "/tmp/top.table",
        format!("buffer main {{ size = 1M  mode = overwrite }}\ntable calls {{ {event} {{ record(); @made = count() }} }}\n"),
    )
    .unwrap();
    kestrel(&["start", "calls", "/tmp/top.table"]).success();
    getpriority_calls(CALLS).unwrap();
    let printed = kestrel(&["top", "-n", "1", "-I", "100ms", "calls", "--format", "json"]).success();
    kestrel(&["stop", "calls"]).success();
    let printed: serde_json::Value = serde_json::from_str(printed.trim()).unwrap();
    let of = &printed["events"][0];
    let (total, missed) = (of["total"].as_u64().unwrap(), printed["missed"].as_u64().unwrap());
    assert!(total <= CALLS && total + missed >= CALLS, "{printed}");
    assert_eq!(of["session"], "calls", "{printed}");
    assert_eq!(printed["maps"][0]["session"], "calls", "{printed}");
}
