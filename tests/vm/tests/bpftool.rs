//! Objects that run, as another tool sees them: bpftool, which reads the kernel without a line of ours.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

#[path = "objects/held.rs"]
#[expect(dead_code, reason = "the objects' own tests need more of it")]
mod held;

use held::{Run, gone, held as held_now, new, wait_for};
use serde_json::Value;
use std::{fs, os::fd::AsRawFd, path::Path};
use vm_tests::{run, shell};

const PIN: &str = "/sys/fs/bpf/tc/globals/calls_of_57";

/// Output of bpftool, in JSON.
fn bpftool(arguments: &[&str]) -> Value {
    let answer = run("bpftool", &[&["-j"], arguments].concat()).success();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("bpftool {arguments:?}: {error}: {answer}"))
}

/// The count of the calls with 57, as bpftool reads the pinned map.
fn counted() -> u64 {
    let entry = bpftool(&["map", "lookup", "pinned", PIN, "key", "1", "0", "0", "0"]);
    // Little-endian bytes, as "0x1e"; objects of this style have no types.
    let bytes: Vec<u8> = entry["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|byte| u8::from_str_radix(byte.as_str().unwrap().trim_start_matches("0x"), 16).unwrap())
        .collect();
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

/// Objects of a kind (`prog`, `map`) that have a name.
fn named(kind: &str, name: &str) -> Vec<Value> {
    let Value::Array(all) = bpftool(&[kind, "show"]) else {
        panic!("bpftool {kind} show lists nothing")
    };
    all.into_iter().filter(|one| one["name"] == name).collect()
}

/// Reads of one byte by the descriptor 57.
fn calls_of_57(count: usize) {
    let zero = fs::File::open("/dev/zero").unwrap();
    // Descriptors are given lowest first: take them until it is that number's turn.
    let mut taken = vec![zero];
    while taken.last().unwrap().as_raw_fd() != 57 {
        taken.push(taken[0].try_clone().unwrap());
    }
    for _ in 0..count {
        std::io::Read::read_exact(taken.last_mut().unwrap(), &mut [0; 1]).unwrap();
    }
}

/// Checks that calls are counted by the running object as they are made: none too many, and too few only by hits that the kernel itself says it missed.
fn counts_exactly(count: usize) {
    let missed = || {
        named("prog", "count")[0]["recursion_misses"]
            .as_u64()
            .unwrap_or(0)
    };
    let (before, lost) = (counted(), missed());
    calls_of_57(count);
    let (after, lost) = (counted() - before, missed() - lost);
    println!("{count} calls, {after} counted, {lost} missed");
    assert!(after <= count as u64 && after + lost >= count as u64);
}

#[test]
fn the_classic_object_is_seen_to_count_and_to_leave_its_pin_alone() {
    let before = held_now();
    let run = Run::start(&["/object_classic.o", "ksys_read"]);
    let (programs, maps) = (named("prog", "count"), named("map", "calls_of_57"));
    assert_eq!((programs.len(), maps.len()), (1, 1), "{programs:?} {maps:?}");
    assert_eq!(programs[0]["type"], "kprobe");
    assert_eq!(programs[0]["gpl_compatible"], true);
    let map = &maps[0];
    assert_eq!(programs[0]["map_ids"], Value::from(vec![map["id"].clone()]));
    assert_eq!(
        (
            &map["type"],
            &map["bytes_key"],
            &map["bytes_value"],
            &map["max_entries"]
        ),
        (&"array".into(), &4.into(), &8.into(), &2.into())
    );
    let Value::Array(links) = bpftool(&["link", "show"]) else {
        panic!("bpftool link show lists nothing")
    };
    assert!(
        links.iter().any(|link| link["prog_id"] == programs[0]["id"]),
        "{links:?}"
    );
    assert_eq!(counted(), 0);
    counts_exactly(30);
    counts_exactly(12);
    run.end();
    wait_for("the end of the program", || named("prog", "count").is_empty());
    let left = named("map", "calls_of_57");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["id"], map["id"]);
    let stayed = counted();
    calls_of_57(5);
    assert_eq!(counted(), stayed, "nobody counts");
    // Its other remains: the pin and the directories above.
    assert_eq!(shell("find /sys/fs/bpf -type f").success().trim(), PIN);
    // Links and probes may take a moment to go, and other tests' that were there may have gone.
    wait_for("the end of links and probes", || {
        let now = held_now();
        new(&now.1, &before.1).is_empty() && now.3.lines().all(|line| before.3.contains(line))
    });
    // A second run takes the pin's map and goes on counting in it.
    let run = Run::start(&["/object_classic.o", "ksys_read"]);
    assert_eq!(named("map", "calls_of_57").len(), 1);
    assert_eq!(named("prog", "count")[0]["map_ids"][0], map["id"]);
    assert_eq!(counted(), stayed);
    counts_exactly(8);
    run.end();
    vm_tests::kestrel(&["bpf", "run", "/object_classic.o", "--unpin"]).success();
    assert!(!Path::new("/sys/fs/bpf/tc").exists());
    gone(&before);
}

#[test]
fn programs_and_maps_bear_the_names_of_the_object() {
    let before = held_now();
    let run = Run::start(&["/object_module.o", "--strict"]);
    for program in ["on_entry", "on_exit", "on_probe"] {
        let found = named("prog", program);
        assert_eq!(found.len(), 1, "{program}");
        assert!(found[0]["btf_id"].is_u64(), "with types: {found:?}");
    }
    // Global data bear the object's name, too, and bpftool reads them by their types.
    let data = named("map", "object_modu.bss");
    assert_eq!(data.len(), 1, "{}", bpftool(&["map", "show"]));
    let id = data[0]["id"].to_string();
    let dump = bpftool(&["map", "dump", "id", &id]).to_string();
    assert!(dump.contains("size_of_entry"), "{dump}");
    run.end();
    gone(&before);
}
