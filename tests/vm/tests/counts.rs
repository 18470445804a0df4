//! Exactness: what is recorded and what is lost add up to what happened, in process, interrupt and NMI context, in both modes.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::fs;
use vm_tests::{
    recording::{Counts, Record, Recorder, record_command},
    shell, until,
};

const CALLS: usize = 10_000;
const GETPPID: &str = "syscalls:sys_enter_getppid";
/// Shells ask for their parent, too.
const GETPPID_OF_CALLS: &str = "syscalls:sys_enter_getppid /comm == \"calls\"/";

fn calls() -> [String; 3] {
    ["calls".to_owned(), "getppid".to_owned(), CALLS.to_string()]
}

fn of<'a>(records: &'a [Record], event: &'a str) -> impl Iterator<Item = &'a Record> {
    records.iter().filter(move |r| r.event == event)
}

/// Lost and overwritten of one event, over all CPUs.
fn missing(counts: &Counts, event: &str) -> u64 {
    let rows = counts.each.iter().filter(|((name, _), _)| name == event);
    rows.map(|(_, (lost, overwritten))| lost + overwritten).sum()
}

/// Records an event over exactly so many calls and checks the sum.
fn adds_up(options: &[&str]) -> (Vec<Record>, Counts) {
    let command = calls();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let (records, counts) = record_command(options, &command);
    let kept = of(&records, GETPPID).count() as u64;
    println!(
        "{options:?}: {kept} kept, {} lost, {} overwritten, {} missed",
        counts.lost, counts.overwritten, counts.missed
    );
    // Hits of others may have been missed, too, so that with any missed it is only a bound.
    let known = kept + missing(&counts, GETPPID);
    assert!(counts.explain(known as usize, CALLS), "{known}: {counts:?}");
    (records, counts)
}

#[test]
fn nothing_is_lost_in_a_large_buffer() {
    for via in ["raw", "classic"] {
        let (_, counts) = adds_up(&["--via", via, "--buffer-size", "16M", "-e", GETPPID]);
        assert_eq!((counts.lost, counts.overwritten), (0, 0));
    }
}

#[test]
fn a_small_stream_reports_its_losses() {
    for via in ["raw", "classic"] {
        adds_up(&["--via", via, "--buffer-size", "16K", "-e", GETPPID]);
        // It certainly loses without a reader: two CPUs' rings hold a tenth of it.
        let options = ["-a", "--via", via, "--buffer-size", "16K", "-e", GETPPID_OF_CALLS];
        let recorder = Recorder::start("small", &options);
        recorder.hold();
        shell(&calls().join(" ")).success();
        recorder.go_on();
        let (records, counts, printed) = recorder.stop();
        assert!(
            counts.lost + counts.missed > CALLS as u64 / 2,
            "a small buffer loses: {printed}"
        );
        let known = records.len() as u64 + missing(&counts, GETPPID);
        assert!(counts.explain(known as usize, CALLS), "{known}: {printed}");
    }
}

#[test]
fn an_overwriting_ring_keeps_the_newest() {
    for via in ["raw", "classic"] {
        let (records, counts) = adds_up(&[
            "--via",
            via,
            "--overwrite",
            "--buffer-size",
            "64K",
            "-e",
            GETPPID,
            "-e",
            "sched:sched_switch",
        ]);
        assert!(counts.overwritten + counts.missed > 0, "{counts:?}");
        assert_eq!(counts.lost, 0, "an overwriting ring refuses nothing");
        let kept = of(&records, GETPPID).count();
        // 24 bytes each, in 64 KiB on each CPU, less the page being written.
        assert!(kept as u64 + counts.missed > 1000, "{kept}: {counts:?}");
    }
}

#[test]
fn interrupts_and_processes_share_a_ring() {
    let mut options: Vec<&str> = vec!["-a", "--buffer-size", "32M"];
    for event in [
        "timer:hrtimer_*",
        "irq:*",
        "sched:sched_s*",
        "raw_syscalls:sys_enter /comm == \"calls\"/",
        "kprobe:vfs_read /comm == \"calls\"/",
        "kretprobe:vfs_read /comm == \"calls\"/",
        GETPPID_OF_CALLS,
    ] {
        options.extend(["-e", event]);
    }
    let recorder = Recorder::start("interrupts", &options);
    let before = softirqs();
    let two = format!("calls read 1000 & calls getppid {CALLS} & wait");
    shell(&two).success();
    // On a fast machine all that is over before many interrupts have come.
    until("interrupts", || softirqs() > before + 100);
    let (records, counts, printed) = recorder.stop();
    assert_eq!(counts.lost, 0, "{printed}");
    // Kprobe and classic programs share a guard with one another; what it keeps out is counted.
    let reads = of(&records, "kprobe:vfs_read").count() as u64;
    assert!(
        reads < 1050 && reads + counts.missed >= 1000,
        "{reads} reads of 1000: {printed}"
    );
    let getppid = of(&records, GETPPID).count();
    assert!(
        getppid <= CALLS && getppid as u64 + counts.missed >= CALLS as u64,
        "{getppid}: {printed}"
    );
    let interrupts = records.iter().filter(|r| r.event.starts_with("irq:")).count();
    assert!(interrupts > 100, "{interrupts}");
    println!(
        "{} records, {interrupts} of interrupts, {} missed",
        records.len(),
        counts.missed
    );
}

#[test]
fn an_overwriting_ring_counts_each_kind_under_interrupts() {
    let options = [
        "-a",
        "--overwrite",
        "--buffer-size",
        "64K",
        "-e",
        GETPPID_OF_CALLS,
        "-e",
        "irq:*",
        "-e",
        "timer:hrtimer_expire_exit",
        "-e",
        "sched:sched_switch",
        "-e",
        "raw_syscalls:sys_exit",
    ];
    let recorder = Recorder::start("overwrite", &options);
    let two = format!("calls getppid {} & calls getppid {} & wait", CALLS / 2, CALLS / 2);
    shell(&two).success();
    let (records, counts, printed) = recorder.stop();
    let kept = of(&records, GETPPID).count() as u64;
    let sum = kept + missing(&counts, GETPPID);
    println!("{kept} kept, {} missed, of {CALLS}", counts.missed);
    assert!(
        sum <= CALLS as u64 && sum + counts.missed >= CALLS as u64,
        "{kept} kept and {} missing of {CALLS}: {printed}",
        sum - kept
    );
}

/// Soft interrupts so far, by the kernel's count.
fn softirqs() -> u64 {
    let text = fs::read_to_string("/proc/softirqs").unwrap();
    let numbers = text
        .split_whitespace()
        .filter_map(|word| word.parse::<u64>().ok());
    numbers.sum()
}

/// NMIs so far, from /proc/interrupts.
fn nmis() -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("NMI:"));
    let words = line.unwrap_or_default().split_whitespace().skip(1);
    words.map_while(|word| word.parse::<u64>().ok()).sum()
}

#[test]
fn nmis_write_into_the_same_ring() {
    let recorder = Recorder::start(
        "nmi",
        &[
            "-a",
            "--buffer-size",
            "16M",
            "-e",
            "nmi:nmi_handler",
            "-e",
            "raw_syscalls:sys_enter /comm == \"calls\"/",
        ],
    );
    // No counters interrupt under emulation; backtraces of other CPUs are asked for by NMI.
    let before = nmis();
    fs::write("/proc/sys/kernel/sysrq", "1").unwrap();
    fs::write("/proc/sys/kernel/printk", "1 1 1 1").unwrap();
    let busy = "calls getppid 10000 & calls getppid 10000 & for i in 1 2 3 4; do echo l > /proc/sysrq-trigger; done; wait";
    shell(busy).success();
    let came = nmis() - before;
    let (records, counts, printed) = recorder.stop();
    if came == 0 {
        return vm_tests::skip("no NMI comes in this guest");
    }
    let handlers = of(&records, "nmi:nmi_handler").count();
    let calls = of(&records, "raw_syscalls:sys_enter")
        .filter(|r| r.number("id") == 110)
        .count();
    println!(
        "{came} NMIs, {handlers} handlers called, {calls} system calls, {} missed",
        counts.missed
    );
    assert!(handlers as u64 + counts.missed >= came, "{handlers} of {came}");
    assert!(
        calls as u64 + counts.lost + counts.missed >= 20_000,
        "{calls}: {printed}"
    );
    assert!(calls <= 20_000);
}
