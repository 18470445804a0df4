//! Every kind of section, on the functions of kernels and of this very test; CO-RE.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use crate::held::{Run, gone, held, last_value, missed, shown_calls};
use serde_json::Value;
use std::fs;
use vm_tests::{kestrel, shell, version};

#[test]
fn every_kind_of_section_runs_and_counts() {
    let before = held();
    let count = 50;
    let session = version() >= (6, 12);
    let mut arguments = vec![
        "/object_modern.o",
        "--output",
        "on_uprobe=/test:*getppid_marker*",
        "on_uretprobe=/test:*getppid_marker*",
        "on_uprobe_multi=/test:*getppid_marke?*",
    ];
    if session {
        arguments.push("on_session=vfs_read");
    }
    let out = shown_calls(&arguments, count, Some("on_clock"));
    let values = last_value(&out, ".bss", 0);
    let runs: Vec<u64> = values["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_u64().unwrap())
        .collect();
    let lost = missed(&out);
    println!("runs {runs:?}, missed {lost}, session {session}");
    let about = |index: usize, what: &str| {
        assert!(
            runs[index] <= count + 20 && runs[index] + lost >= count,
            "{what}: {} of {count}, {lost} missed",
            runs[index]
        );
    };
    let names = [
        "kprobe",
        "tail call",
        "kretprobe",
        "kprobe.multi",
        "kretprobe.multi",
        "ksyscall",
        "tracepoint",
        "tp",
        "raw_tp",
        "tp_btf",
        "fentry",
        "fexit",
    ];
    for (index, name) in names.iter().enumerate() {
        about(index, name);
    }
    assert!(runs[12] > 0, "perf_event: {runs:?}");
    if session {
        assert!(runs[13] + lost >= 2 * count, "entry and return: {runs:?}");
    }
    assert_eq!(runs[23], 0, "the tail call failed");
    assert!(
        out.lines().filter(|line| *line == "one task").count() > 5,
        "the iterator: {out}"
    );
    let release = values["version_seen"].as_u64().unwrap();
    assert_eq!(
        (release >> 16, release >> 8 & 255),
        (version().0.into(), version().1.into())
    );
    let config = shell("zcat /proc/config.gz 2>/dev/null || cat /boot/config-$(uname -r) 2>/dev/null");
    let hz = config
        .out
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="))
        .map(|hz| hz.parse::<u64>().unwrap());
    println!("HZ {hz:?}, seen {}", values["hz_seen"]);
    assert!(hz.is_none_or(|hz| values["hz_seen"] == hz));
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let task = symbols
        .lines()
        .find(|line| line.ends_with(" init_task"))
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert_eq!(values["init_task_at"], u64::from_str_radix(task, 16).unwrap());
    assert_eq!(last_value(&out, ".data", 0)["start"], 7);
    assert!(
        last_value(&out, "inner_one", 0).as_u64().unwrap() + lost >= count,
        "through the map of maps"
    );
    let pid = u64::from(std::process::id());
    let hit = last_value(&out, "last", 0);
    assert_eq!(hit["pid"], pid, "read through a relocated field");
    let records = |map: &str| {
        let lines = out
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|line| line["output"] == map && line["value"]["pid"] == pid)
            // Other threads of the test read, too.
            .filter(|line| {
                line["value"]["comm"]
                    .as_str()
                    .is_some_and(|comm| !comm.is_empty())
            })
            .count() as u64
    };
    let (ring, perf) = (records("ring"), records("perf"));
    assert_eq!(ring, perf);
    assert!(ring >= count, "{ring}");
    assert_eq!(ring, runs[0], "what is written and what is counted");
    gone(&before);
}

#[inline(never)]
fn getppid_marker() -> u32 {
    std::hint::black_box(7)
}

#[test]
fn functions_of_programs_are_probed() {
    let wanted = format!("wanted={}", std::process::id());
    let before = held();
    let mut arguments = vec![
        "/object_modern.o",
        "on_uprobe=/test:*getppid_marker*",
        "on_uretprobe=/test:*getppid_marker*",
        "on_uprobe_multi=/test:*getppid_marke?*",
        "--set",
        &wanted,
        "--maps",
        "--interval",
        "60",
    ];
    // Entry and return by one program came with 6.13.
    let session = version() >= (6, 13);
    if session {
        arguments.push("on_uprobe_session=/test:*getppid_marker*");
    }
    let run = Run::start(&arguments);
    for _ in 0..40 {
        std::hint::black_box(getppid_marker());
    }
    let (out, _) = run.end();
    let line = out.lines().find(|line| line.starts_with(".bss ")).unwrap();
    let runs: Vec<u64> = line
        .split_once("runs: [")
        .unwrap()
        .1
        .split(']')
        .next()
        .unwrap()
        .split(", ")
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!((runs[14], runs[15], runs[16]), (40, 40, 40), "{line}");
    assert_eq!(runs[17], if session { 80 } else { 0 }, "{line}");
    gone(&before);
}

#[test]
fn a_field_that_was_renamed_is_found_by_whatever_name() {
    let before = held();
    let out = shown_calls(&["/object_core.o"], 5, None);
    let values = last_value(&out, ".bss", 0);
    let (name, seen) = (
        values["name"].as_u64().unwrap(),
        values["changed"].as_i64().unwrap(),
    );
    let metadata = fs::metadata("/dev/zero").unwrap();
    assert_eq!(
        seen,
        std::os::unix::fs::MetadataExt::ctime(&metadata),
        "by name {name}"
    );
    let expected = match version() {
        (6, minor) if minor < 6 => 1,
        (6, minor) if minor < 11 => 2,
        _ => 3,
    };
    assert_eq!(name, expected);
    gone(&before);
}

#[test]
fn sizes_and_settings_that_an_object_leaves_open_are_options() {
    let before = held();
    let run = |more: &[&str]| {
        let fixed = ["bpf", "run", "/object_walk.o", "--duration", "0", "--maps"];
        kestrel(&[&fixed[..], more].concat())
    };
    let size = ["--map-size", "walked=4"];
    let hz = ["--set", "CONFIG_HZ=1234"];
    let refused = run(&hz);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.err.contains("--map-size walked=ENTRIES"),
        "{}",
        refused.err
    );
    let entries = "entry a\nentry b\nentry c\nentry d\n";
    for target in [&[][..], &["walk=map:walked"]] {
        let out = run(&[&size[..], &hz, target].concat()).success();
        assert!(
            out.contains(entries) && out.contains("hz: 1234"),
            "{target:?}: {out}"
        );
    }
    for (target, words) in [
        (
            "walk=map:narrow",
            "more of each entry than those of the map narrow have",
        ),
        ("walk=map:nobody", "it has walked, narrow"),
        ("walk=map:/sys/fs/bpf/nobody", "/sys/fs/bpf/nobody"),
        ("walk=cgroup:/nowhere", "/nowhere"),
    ] {
        let refused = run(&[&size[..], &hz, &[target]].concat());
        assert_ne!(refused.code, Some(0), "{target}");
        assert!(refused.err.contains(words), "{target}: {}", refused.err);
    }
    for wrong in [&["--map-size", "nobody=4"][..], &["--map-size", "walked=many"]] {
        assert_ne!(run(&[wrong, &hz[..]].concat()).code, Some(0), "{wrong:?}");
    }
    // Over a map that is pinned, and over one that is not.
    let pinned = ["--pin", "/sys/fs/bpf/walked"];
    run(&[&size[..], &hz, &pinned].concat()).success();
    let out = run(&[
        &["--map-size", "walked=1"][..],
        &hz,
        &["walk=map:/sys/fs/bpf/walked/map_walked"],
    ]
    .concat());
    assert!(out.success().contains(entries));
    shell("rm -r /sys/fs/bpf/walked").success();
    gone(&before);
}
