//! How objects are attached and what is left afterwards: pins, probes of tracefs, what `--pin` keeps.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use crate::held::{Run, gone, held, new, wait_for};
use kestrel_kernel::bpf::{self, Pinned};
use std::{fs, os::fd::AsFd, path::Path};
use vm_tests::{TRACEFS, kestrel, shell};

const GLOBAL: &str = "/sys/fs/bpf/tc/globals/calls_of_57";

/// The two counters of the classic object's map: all calls, those with 57.
fn counters() -> (u64, u64) {
    let Pinned::Map(map) = bpf::pinned(Path::new(GLOBAL)).unwrap() else {
        panic!("not a map")
    };
    let at = |key: u32| {
        u64::from_ne_bytes(
            map.lookup(&key.to_ne_bytes())
                .unwrap()
                .unwrap()
                .try_into()
                .unwrap(),
        )
    };
    (at(0), at(1))
}

/// Reads of one byte by a descriptor of that number.
fn reads_by(number: i32, count: usize) {
    let zero = fs::File::open("/dev/zero").unwrap();
    // Descriptors are given lowest first: take them until it is that number's turn.
    let mut taken = vec![rustix::io::dup(zero.as_fd()).unwrap()];
    while std::os::fd::AsRawFd::as_raw_fd(taken.last().unwrap()) != number {
        taken.push(rustix::io::dup(zero.as_fd()).unwrap());
    }
    let mut byte = [0; 1];
    for _ in 0..count {
        rustix::io::read(taken.last().unwrap(), &mut byte).unwrap();
    }
}

#[test]
fn the_classic_object_counts_calls_and_leaves_its_pin_alone() {
    let before = held();
    let run = Run::start(&["/object_classic.o", "ksys_read"]);
    reads_by(57, 30);
    reads_by(58, 20);
    run.end();
    let (all, ours) = counters();
    assert_eq!(ours, 30);
    assert!(all >= 50, "{all}");
    wait_for("the end of its link and its program", || {
        new(&bpf::link_ids().unwrap(), &before.1).is_empty()
            && new(&bpf::program_ids().unwrap(), &before.0).is_empty()
    });
    // The second run finds the pin and goes on counting; through tracefs, on the instruction where the function begins, too.
    for (round, options) in [&["--via", "tracefs"][..], &["--via", "link"], &["--return"]]
        .into_iter()
        .enumerate()
    {
        let arguments = [&["/object_classic.o", "ksys_read", "-v"], options].concat();
        let run = Run::start(&arguments);
        reads_by(57, 10);
        let (_, err) = run.end();
        assert!(err.contains(&format!("found at {GLOBAL}")), "{err}");
        // At the return, the register of the first argument holds something else.
        let expected = if options == ["--return"] {
            50
        } else {
            40 + 10 * round as u64
        };
        assert_eq!(counters().1, expected, "{options:?}");
        assert_eq!(held().3, before.3, "kprobe_events");
    }
    // Inside of the function an instruction must begin there.
    let place = |offset: u32| {
        kestrel(&[
            "bpf",
            "run",
            "/object_classic.o",
            &format!("ksys_read+{offset:#x}"),
            "--duration",
            "0",
        ])
    };
    let codes: Vec<_> = (1..10).map(|offset| place(offset).code).collect();
    assert!(codes.contains(&Some(0)) && codes.contains(&Some(2)), "{codes:?}");
    assert!(
        codes.iter().all(|code| [Some(0), Some(2)].contains(code)),
        "{codes:?}"
    );
    // A map of another shape is not taken for it.
    let other = bpf::MapSpec::new(bpf::MapKind::HASH, "calls_of_57", 4, 8, 2);
    let other = bpf::Map::create(&other).unwrap();
    fs::remove_file(GLOBAL).unwrap();
    bpf::pin(other.as_fd(), Path::new(GLOBAL)).unwrap();
    drop(other);
    let refused = kestrel(&["bpf", "run", "/object_classic.o", "ksys_read"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(
        refused.err.contains("there:  hash") && refused.err.contains("wanted: array"),
        "{}",
        refused.err
    );
    let removed = kestrel(&["bpf", "run", "/object_classic.o", "--unpin"]).success();
    assert!(removed.contains(GLOBAL), "{removed}");
    assert!(
        !Path::new("/sys/fs/bpf/tc").exists(),
        "directories go with the last pin"
    );
    gone(&before);
}

#[test]
fn probes_of_tracefs_are_swept_after_a_kill_and_only_ours() {
    let before = held();
    let theirs = "p:theirs/probe vfs_write";
    shell(&format!("echo '{theirs}' >> {TRACEFS}/kprobe_events")).success();
    let mut run = Run::start(&["/object_older.o", "--via", "tracefs"]);
    assert!(held().3.contains("kestrel/p"));
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    assert!(held().3.contains("kestrel/p"), "a kill leaves it");
    let alive = Run::start(&["/object_older.o", "--via", "tracefs"]);
    let ours = format!("kestrel/p{}_", alive.child.id());
    let swept = held().3;
    assert_eq!(
        swept.matches("kestrel/p").count(),
        swept.matches(&ours).count(),
        "{swept}"
    );
    let second = Run::start(&["/object_older.o", "--via", "tracefs"]);
    assert!(held().3.contains(&ours), "who lives keeps theirs");
    second.end();
    alive.end();
    let left = held().3;
    assert!(
        left.contains("theirs/probe") && !left.contains("kestrel/p"),
        "{left}"
    );
    shell(&format!("echo '-:theirs/probe' >> {TRACEFS}/kprobe_events")).success();
    gone(&before);
}

#[test]
fn pinned_links_and_maps_outlive_the_run() {
    let before = held();
    let directory = "/sys/fs/bpf/kept";
    Run::start(&["/object_older.o", "--pin", directory, "--duration", "0"]).wait();
    let names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.contains(&"link_on_read".to_owned()) && names.contains(&"map_hits".to_owned()),
        "{names:?}"
    );
    vm_tests::read_calls(25).unwrap();
    let Pinned::Map(map) = bpf::pinned(Path::new("/sys/fs/bpf/kept/map_hits")).unwrap() else {
        panic!("not a map")
    };
    let count = map.lookup(&std::process::id().to_ne_bytes()).unwrap().unwrap();
    assert!(u64::from_ne_bytes(count.try_into().unwrap()) >= 25);
    drop(map);
    let again = kestrel(&[
        "bpf",
        "run",
        "/object_older.o",
        "--pin",
        directory,
        "--duration",
        "0",
    ]);
    assert_ne!(again.code, Some(0), "what is there is not replaced");
    shell(&format!("rm -r {directory}")).success();
    gone(&before);
}
