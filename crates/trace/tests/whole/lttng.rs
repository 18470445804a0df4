//! A kernel trace that LTTng recorded (lttng-modules 2.13 on Linux 6.1: scheduler, interrupts, system calls, 0.6 s of two CPUs) read as ours and as babeltrace2 reads it.

use crate::babeltrace::babeltrace;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::export::{Export, Json};
use kestrel_trace::import;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// The files of the trace, packed.
const FILES: [(&str, &[u8]); 3] = [
    (
        "metadata",
        include_bytes!("../recorded/lttng-kernel/metadata.zst"),
    ),
    (
        "channel0_0",
        include_bytes!("../recorded/lttng-kernel/channel0_0.zst"),
    ),
    (
        "channel0_1",
        include_bytes!("../recorded/lttng-kernel/channel0_1.zst"),
    ),
];

fn unpack(folder: &Path) {
    for (name, packed) in FILES {
        let mut file = File::create(folder.join(name)).unwrap();
        zstd::stream::copy_decode(packed, &mut file).unwrap();
    }
}

/// All records as JSON.
fn records(folder: &Path) -> Vec<Value> {
    let Trace {
        mut reader,
        symbols,
        processes,
        remarks,
        ..
    } = import::open(folder).unwrap();
    assert_eq!(remarks, Vec::<String>::new());
    let mut json = Json::new(symbols, processes);
    let mut lines = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        json.record(&record, &mut lines);
    }
    assert_eq!(reader.losses().lost, 0);
    let lines = String::from_utf8(lines).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_kernel_trace_has_the_kernels_names() {
    let dir = tempfile::tempdir().unwrap();
    unpack(dir.path());
    let records = records(dir.path());
    let mut counts = BTreeMap::new();
    for record in &records {
        *counts.entry(record["event"].as_str().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(records.len(), 4421);
    // As `babeltrace2 | awk '{print $4}' | sort | uniq -c` counts them.
    for (event, count) in [
        ("irq:softirq_raise", 362),
        ("power:cpu_idle", 354),
        ("syscalls:sys_enter_openat", 311),
        ("syscalls:sys_exit_openat", 311),
        ("sched:sched_switch", 256),
        ("syscalls:sys_enter_newfstatat", 207),
        ("syscalls:sys_exit_mmap", 196),
    ] {
        assert_eq!(counts[event], count, "{event}");
    }
    assert_eq!(
        records[0],
        json!({
            "time": 19_628_321_840_u64, "cpu": 0, "pid": 361, "tid": 361, "comm": "Client manageme", "event": "sched:sched_stat_runtime",
            "fields": { "comm": "Client manageme", "pid": 361, "runtime": 3_989_347, "vruntime": 8_478_070_586_u64 },
        })
    );
    let opened = records
        .iter()
        .find(|record| record["event"] == "syscalls:sys_enter_openat");
    assert_eq!(
        opened.unwrap()["fields"],
        json!({ "dfd": -100, "filename": "/dev/null", "flags": 577, "mode": 438 })
    );
}

#[test]
fn times_and_cpus_are_those_that_babeltrace_reads() {
    let dir = tempfile::tempdir().unwrap();
    unpack(dir.path());
    let Some(output) = babeltrace(&["--clock-cycles"], dir.path()) else {
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    // `[00000000019628321840] (+????????????) (none) sched_stat_runtime: { cpu_id = 0 }, { … }`
    let theirs = text.lines().map(|line| {
        let time = line.split(['[', ']']).nth(1).unwrap();
        let cpu = line.split("{ cpu_id = ").nth(1).unwrap();
        let cpu = cpu.split(' ').next().unwrap();
        (time.parse::<u64>().unwrap(), cpu.parse::<u64>().unwrap())
    });
    let ours = records(dir.path());
    let ours = ours
        .iter()
        .map(|record| (record["time"].as_u64().unwrap(), record["cpu"].as_u64().unwrap()));
    // Which CPU comes first at the same nanosecond is each reader's choice.
    let sorted = |all: &mut dyn Iterator<Item = (u64, u64)>| {
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(&mut ours.into_iter()), sorted(&mut theirs.into_iter()));
}
