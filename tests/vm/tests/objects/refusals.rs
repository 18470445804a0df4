//! Objects that are refused, and programs that are left out: why, and nothing is left behind.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use crate::held::{Run, gone, held, new};
use kestrel_kernel::bpf;
use std::{fs, os::fd::AsFd, path::Path};
use vm_tests::{kestrel, shell};

/// `bpf run` with these arguments ends with this code and says all of this.
#[track_caller]
fn says(arguments: &[&str], code: i32, words: &[&str]) {
    let run = kestrel(&[&["bpf", "run"], arguments].concat());
    assert_eq!(run.code, Some(code), "{arguments:?}: {}{}", run.out, run.err);
    for word in words {
        assert!(
            run.err.contains(word),
            "{arguments:?} should say {word:?}: {}",
            run.err
        );
    }
}

#[test]
fn sizes_that_are_left_open_are_all_named_at_once() {
    let before = held();
    says(
        &["/object_open.o"],
        2,
        &[
            "sizes of 2 maps",
            "--map-size first=ENTRIES --map-size second=BYTES",
        ],
    );
    says(
        &["/object_open.o", "--map-size", "first=9"],
        2,
        &["a map", "--map-size second=BYTES"],
    );
    let sizes = [
        "--map-size",
        "first=9",
        "--map-size",
        "second=4096",
        "--duration",
        "0",
    ];
    kestrel(&[&["bpf", "run", "/object_open.o"], &sizes[..]].concat()).success();
    gone(&before);
}

#[test]
fn twins_are_named_chosen_and_given_maps_that_others_made() {
    let before = held();
    let twins = "/object_twins.o";
    let run = Run::start(&[twins, "--output"]);
    vm_tests::read_calls(50).unwrap();
    let (out, err) = run.end();
    assert!(
        err.contains("by_kprobe (kprobe/vfs_read) and by_fentry (fentry/vfs_read)"),
        "{err}"
    );
    assert!(err.contains("events has room for 1 of"), "{err}");
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(
        err.contains(&format!("of {cpus} processors in the object: it is made for all")),
        "{err}"
    );
    assert!(
        out.lines().filter(|line| line.starts_with("events ")).count() >= 50,
        "{out}"
    );
    // A map that somebody else made and pinned.
    let path = Path::new("/sys/fs/bpf/elsewhere");
    let spec = bpf::MapSpec::new(bpf::MapKind::ARRAY, "elsewhere", 4, 8, 2);
    let map = bpf::Map::create(&spec).unwrap();
    bpf::pin(map.as_fd(), path).unwrap();
    let value = |key: u32| map.lookup(&key.to_ne_bytes()).unwrap().unwrap();
    let pinned = "seen=/sys/fs/bpf/elsewhere";
    for (options, seen) in [
        (["--only", "by_fentry"], [false, true]),
        (["--without", "by_fentry"], [true, true]),
    ] {
        let run = Run::start(&[&[twins, "--map", pinned], &options[..]].concat());
        vm_tests::read_calls(50).unwrap();
        let (_, err) = run.end();
        assert!(!err.contains("both see"), "{err}");
        assert_eq!([0, 1].map(|key| value(key) != [0; 8]), seen, "{options:?}");
    }
    drop(map);
    fs::remove_file(path).unwrap();
    says(
        &[twins, "--map", pinned],
        2,
        &["nothing is pinned at /sys/fs/bpf/elsewhere"],
    );
    says(&[twins, "--map", "none=/x"], 2, &["no map `none`", "seen"]);
    says(&[twins, "--map", "seen"], 2, &["NAME=PATH"]);
    says(&[twins, "--only", "by_nobody"], 2, &["no program `by_nobody`"]);
    says(
        &[twins, "--without", "by_kprobe,by_fentry,somewhere"],
        2,
        &["left out"],
    );
    gone(&before);
}

#[test]
fn refusals_say_why_and_leave_nothing() {
    let before = held();
    says(
        &["/object_refused.o"],
        1,
        &["map_value_or_null", "refused.c:", "return *value;", "hint: test"],
    );
    says(&["/object_classic.o", "vfs_raed"], 2, &["vfs_raed", "vfs_read"]);
    says(
        &["/object_classic.o", "vfs_read+0x100000"],
        2,
        &["vfs_read+0x100000", "bytes long", "its last instruction is"],
    );
    says(
        &["/object_classic.o", "count=vfs_read+0x100000"],
        2,
        &["bytes long"],
    );
    says(&["/object_far.o"], 2, &["vfs_read+0x100000", "bytes long"]);
    // Functions begin with endbr64 or with the call that ftrace puts there: both are longer.
    says(&["/object_classic.o", "vfs_read+1"], 2, &["+0x1 is inside the"]);
    says(&["/object_classic.o", "vfs_read+0x4", "--return"], 2, &["return"]);
    says(
        &["/object_classic.o"],
        2,
        &["count=", "does not say what to attach to"],
    );
    says(
        &["/object_classic.o", "other=vfs_read"],
        2,
        &["no program `other`", "count"],
    );
    says(&["/object_older.o", "nothing_at_all"], 2, &["nothing_at_all"]);
    says(&["/test"], 2, &["x86-64"]);
    says(&["/nothing.o"], 1, &["/nothing.o"]);
    says(&["/proc/version"], 2, &["not an ELF file"]);
    says(&["/"], 1, &["directory"]);
    says(&["/dev/zero"], 1, &["a device"]);
    let whole = fs::read("/object_modern.o").unwrap();
    fs::write("/tmp/cut.o", &whole[..whole.len() / 2]).unwrap();
    says(&["/tmp/cut.o"], 2, &["cut"]);
    assert!(!Path::new("/sys/fs/bpf/tc").exists());
    gone(&before);
}

#[test]
fn a_rejected_program_is_explained_and_not_blamed_on_its_attach_point() {
    let before = held();
    for (object, words) in [
        (
            "/object_endless.o",
            ["why: a loop", "the verifier: infinite loop detected"],
        ),
        ("/object_unbounded.o", ["why: a pointer is moved", "hint: bound"]),
        ("/object_signed.o", ["why: a pointer is moved", "hint: bound"]),
        (
            "/object_narrow.o",
            ["why: the offset or size", "hint: give the size or the index"],
        ),
    ] {
        says(&[object], 1, &words);
    }
    says(&["/object_beyond.o"], 2, &["beyond the event's last field"]);
    // Some kernels' verifiers refuse it, others the attachment: the function can be probed all the same.
    let writes = kestrel(&["bpf", "run", "/object_writes.o"]);
    assert!(matches!(writes.code, Some(1 | 4)), "{}", writes.err);
    assert!(writes.err.contains("context"), "{}", writes.err);
    assert!(!writes.err.contains("from being probed"), "{}", writes.err);
    says(
        &["/object_older.o", "--duration", "0", "--pin", "/tmp/no_bpffs"],
        1,
        &["/tmp/no_bpffs", "not in a file system of the type bpf"],
    );
    assert!(!Path::new("/tmp/no_bpffs").exists());
    gone(&before);
}

/// Numbers that look random and are the same at each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

#[test]
fn damaged_objects_leave_nothing_behind() {
    let given = std::env::var("KESTREL_MUTANTS").ok();
    let mutants: usize = given.as_ref().map_or(100, |number| number.parse().unwrap());
    let before = held();
    let mut dice = Dice(5);
    let mut ran = 0;
    let sources =
        ["classic", "older", "raw", "core"].map(|name| fs::read(format!("/object_{name}.o")).unwrap());
    for number in 0..mutants {
        let mut bytes = sources[number % sources.len()].clone();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(bytes.len());
            bytes[at] = dice.roll(256) as u8;
        }
        let name = format!("mutant{number}");
        // Most go through the library, which is all that the command does; some, or all when their number is given, through the command itself.
        if given.is_some() || number % 20 == 0 {
            fs::write("/tmp/mutant.o", &bytes).unwrap();
            let mut words = vec!["bpf", "run", "/tmp/mutant.o", "--duration", "0"];
            if number % sources.len() == 0 {
                words.push("vfs_read");
            }
            let run = kestrel(&words);
            ran += usize::from(run.code == Some(0));
            assert!(
                run.code.is_some_and(|code| code < 5),
                "{number}: {:?} {}",
                run.code,
                run.err
            );
            continue;
        }
        let Ok(object) = kestrel::bpf::Object::open_as(&name, &bytes) else {
            continue;
        };
        let object = match object.parsed().programs() {
            [only] if only.section.target.is_empty() => object.attach_only_to("vfs_read").unwrap(),
            _ => object,
        };
        if let Ok(running) = object.load().and_then(kestrel::bpf::Loaded::attach) {
            ran += 1;
            let _ = running.unpin();
        }
    }
    println!("{ran} of {mutants} mutants ran");
    assert!(ran > mutants / 20, "most damage is harmless: {ran}");
    let _ = shell("rm -rf /sys/fs/bpf/tc"); // pins that the command's mutants asked for, which stay as documented
    gone(&before);
}

#[test]
fn programs_for_other_kernels_are_left_out_and_named() {
    let before = held();
    let run = Run::start(&["/object_absent.o"]);
    let links = kestrel_kernel::bpf::link_ids().unwrap();
    assert_eq!(new(&links, &before.1).len(), 1);
    let (_, err) = run.end();
    for word in [
        "on_absent is left out",
        "no_such_function_of_any_kernel",
        "on_operation is left out",
        "struct_ops",
    ] {
        assert!(err.contains(word), "{word}: {err}");
    }
    assert!(!err.contains("on_wish"), "optional: {err}");
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let all = [&["bpf", "run", "/object_absent.o", "--duration", "0"], arguments].concat();
        let run = kestrel(&all);
        assert_eq!(run.code, Some(code), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(word), "{arguments:?}: {}", run.err);
    };
    // A target that no kernel could attach to is known before anything is made, and so reported first.
    refused(&["--strict"], 2, "on_operation: sections like `struct_ops`");
    refused(&["on_read=no_function_either"], 2, "no_function_either");
    refused(&["--optional"], 0, "on_wish is left out");
    refused(&["on_wish=vfs_read"], 0, "on_absent is left out");
    gone(&before);
}
