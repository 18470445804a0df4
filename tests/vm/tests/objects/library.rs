//! Objects used from Rust: the library's example, and values by type.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use crate::held::{gone, held};
use kestrel::bpf::Object;
use std::path::Path;
use vm_tests::{getppid_calls, run};

#[test]
fn the_example_counts_pins_and_takes_down() {
    let before = held();
    let printed = run("bpf_calls", &["/object_older.o", "calls", "read", "40"]).success();
    let number = |behind: &str, unit: &str| {
        let line = printed
            .lines()
            .find(|line| line.contains(behind) && line.ends_with(unit));
        let line = line.unwrap_or_else(|| panic!("{behind}: {printed}"));
        let number = line.split(": ").nth(1).and_then(|rest| rest.split(' ').next());
        number.unwrap().parse::<u64>().unwrap()
    };
    // The command reads more than its file: its libraries, for one. Where the kernel skips hits, a few are missing.
    assert!((20..200).contains(&number("process ", " calls")), "{printed}");
    assert!((1000..1200).contains(&number("we", " calls")), "{printed}");
    assert!((20..200).contains(&number("pinned", " calls")), "{printed}");
    assert!(printed.contains("removed: true, again: false"), "{printed}");
    assert!(
        printed.contains("its values have 8 bytes, u32 has 4"),
        "{printed}"
    );
    for name in ["link_on_read", "map_hits", "program_on_read"] {
        assert!(printed.contains(&format!("unpinned {name}: true")), "{printed}");
    }
    assert!(
        printed.contains("note: the object has no license section"),
        "{printed}"
    );
    assert!(!Path::new("/sys/fs/bpf/bpf_calls").exists());
    gone(&before);
}

#[test]
fn values_of_rust_types_equal_those_that_programs_wrote() {
    let before = held();
    let bytes = std::fs::read("/object_handler.o").unwrap();
    let object = Object::open(&bytes).unwrap();
    let object = object.attach_to("at_entry", "__x64_sys_getppid").unwrap();
    let running = object.load().unwrap().attach().unwrap();
    // Number of hits, process, and the gap behind it.
    let seen = running.map("seen").unwrap().typed::<u32, [u32; 4]>().unwrap();
    getppid_calls(30);
    let all: u64 = running.variable("all").unwrap();
    let [hits, _, pid, _] = seen.get(&0).unwrap().unwrap();
    // Other programs of the object count in `all`, too.
    assert!(hits >= 1 && u64::from(hits) <= all, "{hits} of {all}");
    assert_eq!(pid, std::process::id());
    assert_eq!(seen.entries().unwrap().len(), 8);
    seen.set(&0, &[5, 0, 6, 0]).unwrap();
    assert_eq!(seen.cpus(&0).unwrap().unwrap(), [[5, 0, 6, 0]]);
    for (name, words) in [
        ("all", "8 bytes, u16 has 2"),
        ("nobody", "no global variable nobody"),
    ] {
        let error = running.variable::<u16>(name).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    drop(running);
    gone(&before);
}

#[test]
fn values_of_each_cpu_are_read_by_type() {
    let before = held();
    let bytes = std::fs::read("/object_cpus.o").unwrap();
    let object = Object::open(&bytes).unwrap();
    let object = object.attach_to("count", "__x64_sys_getppid").unwrap();
    let running = object.load().unwrap().attach().unwrap();
    // Number of calls, process, and the gap behind it.
    let by_cpu = running.map("by_cpu").unwrap().typed::<u32, [u32; 4]>().unwrap();
    getppid_calls(30);
    let all = by_cpu.cpu_entries().unwrap();
    let keys: Vec<u32> = all.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, [0, 1]);
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = cpus.trim().rsplit(['-', ',']).next().unwrap();
    let cpus = last.parse::<usize>().unwrap() + 1;
    assert_eq!(all[0].1, vec![[0; 4]; cpus], "no program writes there");
    let calls = &all[1].1;
    assert_eq!(calls.len(), cpus);
    // Where another program runs on the CPU the kernel skips a hit.
    let sum: u32 = calls.iter().map(|[calls, ..]| calls).sum();
    assert!((1..=30).contains(&sum), "{calls:?}");
    for [calls, _, pid, _] in calls.iter().filter(|[calls, ..]| *calls > 0) {
        assert_eq!(*pid, std::process::id(), "{calls} calls");
    }
    assert_eq!(by_cpu.cpus(&1).unwrap().as_ref(), Some(calls));
    let error = by_cpu.entries().unwrap_err().to_string();
    assert!(error.contains("cpu_entries() reads them"), "{error}");
    // One value for all CPUs.
    by_cpu.set(&0, &[7, 0, 8, 0]).unwrap();
    assert_eq!(by_cpu.cpu_entries().unwrap()[0].1, vec![[7, 0, 8, 0]; cpus]);
    drop(running);
    gone(&before);
}
