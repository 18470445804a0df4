//! What is printed in tracefs's layouts is what tracefs prints.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeSet;
use std::fs;
use vm_tests::{TRACEFS, kestrel};

#[test]
fn tracepoints_are_listed_as_tracefs_does() {
    let listed = kestrel(&["list", "--format", "tracefs"]).success();
    let listed: BTreeSet<&str> = listed.lines().collect();
    let there = fs::read_to_string(format!("{TRACEFS}/available_events")).unwrap();
    let there: BTreeSet<&str> = there.lines().collect();
    assert_eq!(listed, there);
    let some = kestrel(&["list", "sched:*", "--format", "tracefs"]).success();
    assert!(some.lines().count() > 10, "{some}");
    assert!(some.lines().all(|line| line.starts_with("sched:")), "{some}");
}

#[test]
fn formats_are_the_kernels() {
    for (asked, path) in [
        ("sched:sched_switch", "sched/sched_switch"),
        (
            "tracepoint:syscalls:sys_enter_openat",
            "syscalls/sys_enter_openat",
        ),
    ] {
        let printed = kestrel(&["list", "--format-of", asked]).success();
        let there = fs::read_to_string(format!("{TRACEFS}/events/{path}/format")).unwrap();
        assert_eq!(printed, there);
    }
    let none = kestrel(&["list", "--format-of", "sched:sched_swich"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.err.contains("no tracepoint sched:sched_swich"), "{none:?}");
    for wrong in ["sched_switch", "sched:*", "../sched:sched_switch"] {
        let wrong = kestrel(&["list", "--format-of", wrong]);
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
    }
}
