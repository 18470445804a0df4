//! Records in tracefs's layouts are printed as tracefs prints them.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeMap;
use std::fs;
use vm_tests::{TRACEFS, kestrel, shell, version};

#[test]
fn tracepoints_are_listed_as_tracefs_does() {
    let listed = kestrel(&["list", "--format", "tracefs"]).success();
    let there = fs::read_to_string(format!("{TRACEFS}/available_events")).unwrap();
    assert!(listed == there, "{listed}");
    let some = kestrel(&["list", "sched:*", "--format", "tracefs"]).success();
    let of_sched = there.lines().filter(|line| line.starts_with("sched:"));
    assert_eq!(some.lines().collect::<Vec<_>>(), of_sched.collect::<Vec<_>>());
}

#[test]
fn formats_are_the_kernels() {
    for (asked, path) in [
        ("sched:sched_switch", "sched/sched_switch"),
        ("sched:sched_process_exec", "sched/sched_process_exec"),
        ("irq:irq_handler_entry", "irq/irq_handler_entry"),
        ("raw_syscalls:sys_enter", "raw_syscalls/sys_enter"),
        ("timer:timer_start", "timer/timer_start"),
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

/// Runs programs whose names differ by a letter, twice each, and gives how often each of them began according to an instance of tracefs with a filter,
/// and to a recording with the same.
fn filtered(filter: &str) -> (Vec<String>, Vec<String>) {
    let instance = format!("{TRACEFS}/instances/kestrel-test");
    fs::create_dir_all(&instance).unwrap();
    let event = format!("{instance}/events/sched/sched_process_exec");
    fs::write(format!("{event}/filter"), filter).unwrap();
    fs::write(format!("{event}/enable"), "1").unwrap();
    let programs = "/tmp/flt-a; /tmp/flt-b; /tmp/flt-ab; /tmp/flt-ba";
    let line = format!("{programs}; {programs}");
    let file = "/tmp/filtered.trace";
    let done = kestrel(&[
        "record",
        "-a",
        "-o",
        file,
        "-e",
        "sched:sched_process_exec",
        "--filter",
        filter,
        "--",
        "sh",
        "-c",
        &line,
    ]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let kernels = fs::read_to_string(format!("{instance}/trace")).unwrap();
    fs::write(format!("{event}/enable"), "0").unwrap();
    fs::remove_dir(&instance).unwrap();
    let ours = kestrel(&["print", "--format", "tracefs", file]);
    (names(&kernels), names(&ours.out))
}

/// The programs of lines.
fn names(lines: &str) -> Vec<String> {
    let of = |line: &str| {
        Some(
            line.split_once("filename=/tmp/flt-")?
                .1
                .split_whitespace()
                .next()?
                .to_owned(),
        )
    };
    lines.lines().filter_map(of).collect()
}

#[test]
fn filters_match_as_in_tracefs() {
    for name in ["a", "b", "ab", "ba"] {
        // Not copies of a program: those of busybox are known by their names.
        let line = format!("printf '#!/bin/sh\\n' > /tmp/flt-{name} && chmod +x /tmp/flt-{name}");
        shell(&line).success();
    }
    for (filter, some) in [
        ("filename ~ \"/tmp/flt-a*\"", 4),
        ("filename ~ \"*/flt-*b\"", 4),
        ("filename ~ \"/tmp/flt-?\"", 4),
        ("filename ~ \"*t-[!a]*\" && filename != \"/tmp/flt-ba\"", 2),
        ("filename == \"/tmp/flt-b\" || filename == '/tmp/flt-ba'", 4),
        ("!(filename ~ \"*a\") && filename ~ \"/tmp/flt-*\"", 4),
        ("pid & 0xffffff && CPU >= 0 && filename ~ \"/tmp/flt-*\"", 8),
        ("common_pid > 0 && COMM ~ \"flt-*\"", 8),
    ] {
        let (kernels, ours) = filtered(filter);
        assert_eq!(ours, kernels, "{filter}");
        assert_eq!(ours.len(), some, "{filter}");
    }
    let wrong = kestrel(&[
        "trace",
        "-e",
        "sched:sched_switch",
        "--filter",
        "prev_pid = 0",
        "--",
        "true",
    ]);
    assert!(
        wrong.code != Some(0) && wrong.err.contains("has no place in a filter"),
        "{wrong:?}"
    );
}

#[test]
fn lines_are_those_of_trace_pipe() {
    // Fields whose values no other event has, so that lines of the same hit are found.
    let instance = format!("{TRACEFS}/instances/kestrel-lines");
    fs::create_dir_all(&instance).unwrap();
    for event in [
        "sched/sched_process_exec",
        "sched/sched_process_exit",
        "syscalls/sys_exit_getpriority",
    ] {
        fs::write(format!("{instance}/events/{event}/enable"), "1").unwrap();
    }
    let file = "/tmp/lines.trace";
    let events = "sched:sched_process_exec,syscalls:sys_exit_getpriority";
    kestrel(&[
        "record",
        "-a",
        "-o",
        file,
        "-e",
        events,
        "--",
        "calls",
        "getpriority",
        "3",
    ])
    .success();
    let kernels = fs::read_to_string(format!("{instance}/trace")).unwrap();
    for event in [
        "sched/sched_process_exec",
        "sched/sched_process_exit",
        "syscalls/sys_exit_getpriority",
    ] {
        fs::write(format!("{instance}/events/{event}/enable"), "0").unwrap();
    }
    fs::remove_dir(&instance).unwrap();
    let ours = kestrel(&["print", "--format", "tracefs", file]).out;
    // Everything but the flags, which records do not have, and the time, which is of another clock.
    let bare = |line: &str| -> Option<String> {
        let (head, rest) = line.split_once("] ")?;
        let (_, behind) = rest.split_once(": ")?;
        Some(format!("{head}] {behind}"))
    };
    let kernels: Vec<String> = kernels.lines().filter_map(bare).collect();
    let mut compared = 0;
    for line in ours.lines().filter(|line| line.contains("calls-")) {
        let line = bare(line).unwrap();
        assert!(kernels.contains(&line), "{line}\n{kernels:#?}");
        compared += 1;
    }
    assert!(compared >= 4, "{ours}");
    let flags = ours.lines().all(|line| line.contains("] ..... "));
    assert!(flags, "{ours}");
}

/// A line of trace_pipe's layout: its thread, event and number, its time in µs, its flags.
fn flagged(line: &str) -> Option<(String, u64, &str)> {
    let (head, rest) = line.split_once("] ")?;
    let (flags, rest) = rest.split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (seconds, micros) = time.split_once('.')?;
    let (event, fields) = rest.split_once(':')?;
    let (_, thread) = head.rsplit_once('-')?;
    // The kernel's own words stand between some fields: numbers of the woken thread and of the softirq tell enough.
    let number = ["pid=", "vec="].iter().find_map(|field| fields.split_once(field));
    let number = number.map_or("", |(_, value)| {
        value.split([' ', ',']).next().unwrap_or_default()
    });
    let time = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    Some((format!("{thread} {event} {number}"), time, flags))
}

#[test]
fn flags_are_those_of_the_kernels_own_entries() {
    const EVENTS: [&str; 3] = ["sched:sched_waking", "irq:softirq_entry", "irq:irq_handler_entry"];
    /// µs between the two records of one hit: an interrupt may come between them, another hit of the kind is further away.
    const APART: u64 = 300;
    let instance = format!("{TRACEFS}/instances/kestrel-flags");
    fs::create_dir_all(&instance).unwrap();
    fs::write(format!("{instance}/trace_clock"), "mono").unwrap();
    for event in EVENTS {
        fs::write(
            format!("{instance}/events/{}/enable", event.replace(':', "/")),
            "1",
        )
        .unwrap();
    }
    let events = EVENTS.join(",");
    let work = "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=/tmp/flags.file bs=64k count=8 2> /dev/null; sleep 0.1; done";
    let traced = kestrel(&[
        "trace",
        "-a",
        "--include-self",
        "-e",
        &events,
        "--format",
        "tracefs",
        "--",
        "sh",
        "-c",
        work,
    ]);
    fs::write(format!("{instance}/events/enable"), "0").unwrap();
    let kernels = fs::read_to_string(format!("{instance}/trace")).unwrap();
    fs::remove_dir(&instance).unwrap();
    let mut theirs: BTreeMap<String, Vec<(u64, &str)>> = BTreeMap::new();
    for (key, time, flags) in kernels.lines().filter_map(flagged) {
        theirs.entry(key).or_default().push((time, flags));
    }
    let ours = traced.success();
    // Linux 6.14 and later let programs see whether interrupts are off.
    let tells_interrupts = version() >= (6, 14);
    let (mut compared, mut alike, mut needed, mut off) = (0, 0, 0, 0);
    for (key, time, flags) in ours.lines().filter_map(flagged) {
        let all = theirs.get(&key).into_iter().flatten();
        let near: Vec<&str> = all
            .filter(|it| it.0.abs_diff(time) < APART)
            .map(|it| it.1)
            .collect();
        if near.is_empty() {
            continue;
        }
        assert_eq!(flags.len(), 5, "{flags}");
        assert_eq!(flags.starts_with('X'), !tells_interrupts, "{flags}");
        off += u32::from(near.iter().any(|own| own[..1] == flags[..1]));
        compared += 1;
        alike += u32::from(near.iter().any(|own| own[2..4] == flags[2..4]));
        // The kernel writes another letter where only one of two marks of rescheduling is set yet.
        let is_needed = |own: &&str| !matches!(&own[1..2], "." | "n" | "l");
        needed += u32::from(near.iter().any(|own| is_needed(own) == (&flags[1..2] == "N")));
    }
    assert!(compared >= 50, "{compared}\n{ours}\n{kernels}");
    // A guest that stands still between the two records of a hit makes another hit the nearest; an interrupt there may ask for rescheduling.
    assert!(
        alike * 20 >= compared * 19,
        "{alike} of {compared}\n{ours}\n{kernels}"
    );
    assert!(needed * 20 >= compared * 19, "{needed} of {compared}");
    if tells_interrupts {
        assert!(
            off * 20 >= compared * 19,
            "{off} of {compared}\n{ours}\n{kernels}"
        );
    }
    // A kprobe has the register of flags: interrupts are on in a system call, off in the timer's interrupt.
    for (function, interrupts, inside) in [("__x64_sys_getppid", ".", "."), ("hrtimer_interrupt", "d", "hH")]
    {
        let event = format!("kprobe:{function}");
        let all = kestrel(&[
            "trace", "-a", "-e", &event, "--format", "tracefs", "--", "calls", "getppid", "20",
        ])
        .success();
        let flags: Vec<&str> = all
            .lines()
            .filter_map(flagged)
            .filter(|(key, ..)| key.contains(function))
            .map(|(.., flags)| flags)
            .collect();
        assert!(!flags.is_empty(), "{all}");
        let wrong = flags
            .iter()
            .find(|flags| flags[..1] != *interrupts || !inside.contains(&flags[2..3]));
        assert_eq!(wrong, None, "{all}");
    }
}

#[test]
fn a_list_of_events_is_in_the_form_of_set_event() {
    fs::write(
        "/tmp/events.txt",
        "# processes\nsched:sched_process_*\n\n!sched:sched_process_wait\n!sched:sched_process_free # late\ntask:task_rename\n",
    )
    .unwrap();
    let file = "/tmp/listed.trace";
    kestrel(&[
        "record",
        "-o",
        file,
        "-e",
        "@/tmp/events.txt",
        "--",
        "sh",
        "-c",
        "true; cat /proc/version",
    ])
    .success();
    let printed = kestrel(&["print", "--format", "tracefs", file]).out;
    assert!(printed.contains("sched_process_exec: "), "{printed}");
    assert!(printed.contains("task_rename: "), "{printed}");
    assert!(!printed.contains("sched_process_wait: "), "{printed}");
    let counted = kestrel(&["stat", "-x,", "-e", "@/tmp/events.txt", "--", "true"]);
    let rows: Vec<&str> = counted
        .err
        .lines()
        .filter(|line| line.contains(",,sched:sched_process_"))
        .collect();
    let there = fs::read_to_string(format!("{TRACEFS}/available_events")).unwrap();
    let there = there
        .lines()
        .filter(|line| line.starts_with("sched:sched_process_"));
    let wanted = there.filter(|line| !line.ends_with("_wait") && !line.ends_with("_free"));
    assert_eq!(rows.len(), wanted.count(), "{}", counted.err);
    fs::write("/tmp/events.txt", "sched:sched_swich\n").unwrap();
    let wrong = kestrel(&["trace", "-e", "@/tmp/events.txt", "--", "true"]);
    assert!(wrong.err.contains("sched:sched_switch"), "{wrong:?}");
}
