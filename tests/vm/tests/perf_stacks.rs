//! Stacks of processes against those of `perf script`, which records the same calls at the same time: of C, C++, Rust, Go and Python, with and without frame pointers, wherever
//! the program lies.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use vm_tests::{kestrel, release_when_open, run, skip};

macro_rules! build {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

/// The system call that the innermost function makes, and that of the program in Rust.
const EVENT: &str = "syscalls:sys_enter_getpriority";
const RUST_EVENT: &str = "syscalls:sys_enter_getppid";
const TRACE: &str = "/tmp/perf_stacks.trace";
const PERF: &str = "/tmp/perf_stacks.perf";

/// A frame: where it is, and what is there: `leaf+0x1f (/tmp/stacks)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    address: u64,
    name: String,
    binary: String,
}

/// The different user stacks of a command's calls, innermost frame first.
type Stacks = BTreeSet<Vec<Frame>>;

fn program(path: &str, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Reads the layout of `perf script`: of records of threads of this name.
fn stacks(text: &str, comm: &str) -> Stacks {
    let blocks = text.split("\n\n");
    let of_comm = blocks.filter(|block| block.trim_start().starts_with(comm));
    of_comm
        .map(|block| block.trim_start().lines().skip(1).filter_map(frame).collect())
        .collect()
}

/// A line of a user frame; none of the kernel's.
fn frame(line: &str) -> Option<Frame> {
    let (address, rest) = line.trim().split_once(' ')?;
    let (name, binary) = rest.rsplit_once(" (")?;
    let binary = binary.trim_end_matches(')');
    // Brackets are the kernel's: `[kernel.kallsyms]`, `[virtio]`.
    let is_kernel = binary.starts_with('[') && binary != "[unknown]";
    let frame = Frame {
        address: u64::from_str_radix(address, 16).unwrap(),
        name: name.to_owned(),
        binary: binary.to_owned(),
    };
    (!is_kernel).then_some(frame)
}

/// The user stacks of a command's calls, perf's first.
fn both(event: &str, how: &[&str], comm: &str, command: &[&str]) -> (Stacks, Stacks) {
    record_both((event, event), how, command);
    let perf = [
        "script",
        "-i",
        PERF,
        "-F",
        "comm,tid,time,event,ip,sym,symoff,dso",
        "--no-inline",
    ];
    let perf = run("perf", &perf);
    assert_eq!(perf.code, Some(0), "{}", perf.err);
    let kestrel = kestrel(&["print", "--format", "perf-script", TRACE]).success();
    (stacks(&perf.out, comm), stacks(&kestrel, comm))
}

/// Has perf record a recording of a command, so that both have the same calls: perf's event and ours.
fn record_both((event, own): (&str, &str), how: &[&str], command: &[&str]) {
    let _ = fs::remove_dir_all(TRACE);
    let _ = fs::remove_file(PERF);
    let ours = [
        &["kestrel", "record", "-q"],
        how,
        &["-e", own, "-o", TRACE, "--"],
        command,
    ]
    .concat();
    let all = [
        &["record", "-q"],
        how,
        &["-e", event, "-o", PERF, "--"],
        &ours[..],
    ]
    .concat();
    let printed = run("perf", &all);
    assert_eq!(
        printed.code,
        Some(0),
        "perf beside kestrel: {}\n{}",
        printed.out,
        printed.err
    );
    assert_eq!(
        printed.err.lines().find(|line| line.contains("events in")),
        None,
        "quiet: {}",
        printed.err
    );
}

/// A function without what its place in the source adds: perf shows no parameters of C++, and of two names of one place either may be shown.
fn plain(name: &str) -> &str {
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    name.split_once('(').map_or(name, |(name, _)| name)
}

/// Offset of a frame in its function.
fn offset(frame: &Frame) -> Option<u64> {
    let (_, offset) = frame.name.rsplit_once("+0x")?;
    u64::from_str_radix(offset, 16).ok()
}

/// Whether two frames are one: perf gives for a caller found in a copy of the stack the byte before the place of return.
fn agree(perf: &Frame, ours: &Frame) -> bool {
    let behind = ours.address.wrapping_sub(perf.address);
    if behind > 1 {
        return false;
    }
    // A frame without a name is in a file that perf cannot open. Where a call is a function's last instruction, perf names the function behind it.
    if perf.name.starts_with("[unknown]") || offset(perf) == Some(0) {
        return true;
    }
    let function = |frame: &Frame| plain(frame.name.rsplit_once('+').map_or("", |(name, _)| name)).to_owned();
    // Two names of one function.
    let is_alias = offset(perf).map(|from| from + behind) == offset(ours);
    function(perf) == function(ours) || is_alias
}

/// Every stack that perf has is among ours, frame by frame; where perf gave up earlier, ours goes on.
#[track_caller]
fn compare((perf, ours): &(Stacks, Stacks), whole: bool, expected: &[&str]) {
    assert!(!perf.is_empty(), "perf recorded none; ours {ours:#?}");
    for stack in perf {
        let same = |own: &&Vec<Frame>| {
            let pairs = stack.iter().zip(own.iter());
            (own.len() == stack.len() || !whole && own.len() >= stack.len())
                && pairs.into_iter().all(|(perf, own)| agree(perf, own))
        };
        assert!(
            ours.iter().any(|own| same(&own)),
            "perf: {stack:#?}\nours: {ours:#?}"
        );
    }
    for own in ours {
        let named = own
            .iter()
            .zip(expected)
            .all(|(frame, name)| plain(&frame.name).contains(name));
        assert!(named && own.len() >= expected.len(), "{own:#?}");
        assert!(
            !whole || perf.len() == ours.len(),
            "perf: {perf:#?}\nours: {ours:#?}"
        );
    }
}

const C: &[&str] = &["leaf", "middle", "outer", "main"];
const CPP: &[&str] = &["shop::Leaf::call", "shop::open", "shop::Till::ring", "main"];

#[test]
fn with_frame_pointers_the_stacks_are_those_of_perf() {
    let programs: [(&str, &[u8], &[&str]); 2] = [
        ("stacks_static", build!("stacks"), C),
        ("stacks_cpp", build!("stacks_cpp"), CPP),
    ];
    for (name, bytes, expected) in programs {
        let path = format!("/tmp/{name}");
        program(&path, bytes);
        compare(
            &both(EVENT, &["-g"], name, &[&path, "plain", "4"]),
            true,
            expected,
        );
    }
    program("/tmp/stacks_rust", build!("stacks_rust"));
    let command = ["/tmp/stacks_rust", "plain", "4"];
    let found = both(RUST_EVENT, &["-g"], "stacks_rust", &command);
    compare(&found, true, &["getppid"]);
    // The C library's function has no frame: the one that called it is not seen.
    let rust = ["Opens>::open", "Till::ring", "::main"];
    let has = |stack: &Vec<Frame>| {
        rust.iter()
            .all(|name| stack.iter().any(|it| it.name.contains(name)))
    };
    assert!(found.1.iter().all(has), "{:#?}", found.1);
}

#[test]
fn goroutines_have_the_stacks_of_perf() {
    const GO: &[u8] = build!("stacks_go");
    if GO.is_empty() {
        return skip("there was no Go compiler where this test was built (Debian's golang-go)");
    }
    program("/tmp/stacks_go", GO);
    let found = both(
        RUST_EVENT,
        &["-g"],
        "stacks_go",
        &["/tmp/stacks_go", "plain", "4"],
    );
    compare(&found, true, &[]);
    // The function that enters the kernel has no frame: its caller, main.leaf, is not seen, by perf neither.
    let callers = ["main.till.open", "main.ring", "main.main", "runtime.main"];
    let has = |stack: &Vec<Frame>| {
        callers
            .iter()
            .all(|name| stack.iter().any(|it| it.name.starts_with(name)))
    };
    assert!(!found.1.is_empty() && found.1.iter().all(has), "{:#?}", found.1);
}

/// The guest's programs lie on overlayfs, where a mapping's inode is not the file's.
#[test]
fn functions_of_files_on_overlayfs_are_named() {
    let _ = fs::remove_dir_all(TRACE);
    // A call of a function that the C library exports, made in that function.
    let event = "syscalls:sys_enter_brk";
    let recorded = kestrel(&[
        "record",
        "-g",
        "-e",
        event,
        "-o",
        TRACE,
        "--",
        "/bin/echo",
        "named",
    ]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.err);
    let report = kestrel(&["report", "-g", TRACE]);
    for printed in [&recorded.err, &report.err, &report.out] {
        assert!(!printed.contains("another file lies there"), "{printed}");
    }
    let lines = kestrel(&["print", "--format", "perf-script", TRACE]).success();
    let is_named = |line: &str| line.contains("libc.so.6") && line.contains("brk+");
    assert!(lines.lines().any(is_named), "{lines}");
}

#[test]
fn programs_that_are_deleted_or_elsewhere_have_the_stacks_of_perf() {
    program("/tmp/stacks_gone", build!("stacks_pie"));
    let opened = release_when_open("/tmp/stacks_gone", "/tmp/stacks_gone.held");
    let command = ["/tmp/stacks_gone", "deleted", "4", "/tmp/stacks_gone.held"];
    let found = both(EVENT, &["-g"], "stacks_gone", &command);
    opened.join().unwrap();
    compare(&found, true, C);
    program("/tmp/stacks_out", build!("stacks"));
    fs::create_dir_all("/tmp/perf_stacks_root").unwrap();
    program("/tmp/perf_stacks_root/stacks_in", build!("stacks_pie"));
    let command = [
        "/tmp/stacks_out",
        "chroot",
        "40",
        "/tmp/perf_stacks_root",
        "/stacks_in",
        "/held",
    ];
    let opened = release_when_open("/tmp/perf_stacks_root/stacks_in", "/tmp/perf_stacks_root/held");
    let found = both(EVENT, &["-g"], "stacks_in", &command);
    opened.join().unwrap();
    compare(&found, true, C);
    program("/tmp/stacks_made", build!("stacks"));
    let found = both(
        EVENT,
        &["-g"],
        "stacks_made",
        &["/tmp/stacks_made", "generated", "4"],
    );
    compare(&found, true, &["generated_function", "generated", "main"]);
}

#[test]
fn pythons_functions_are_named_as_perf_names_them() {
    let script = "import os\ndef inner():\n    os.getpriority(os.PRIO_PROCESS, 0)\ndef outer():\n    inner()\nfor _ in range(4):\n    outer()\n";
    fs::write("/tmp/perf_stacks.py", script).unwrap();
    let python = ["python3", "-X", "perf", "/tmp/perf_stacks.py"];
    let (perf, ours) = both(EVENT, &["-g"], "python3", &python);
    compare(&(perf, ours), true, &[]);
}

#[test]
fn without_frame_pointers_copies_of_the_stack_have_the_frames_that_perf_finds() {
    // C stands in the test of deep stacks.
    program("/tmp/stacks_cppless", build!("stacks_cpp_frameless"));
    let command = ["/tmp/stacks_cppless", "plain", "4"];
    compare(
        &both(EVENT, &["--call-graph", "dwarf"], "stacks_cppless", &command),
        false,
        CPP,
    );
    program("/tmp/stacks_rustless", build!("stacks_rust_frameless"));
    let command = ["/tmp/stacks_rustless", "plain", "4"];
    compare(
        &both(
            RUST_EVENT,
            &["--call-graph", "dwarf"],
            "stacks_rustless",
            &command,
        ),
        false,
        &["getppid"],
    );
}

/// The shares of functions of processes, with what they called and alone, as perf report's layout has them.
fn shares(text: &str) -> BTreeMap<String, (f64, f64)> {
    let row = |line: &str| {
        let (front, symbol) = line.split_once("[.] ")?;
        let mut words = front.split_whitespace();
        let mut share = || words.next()?.strip_suffix('%')?.parse::<f64>().ok();
        Some((plain(symbol.trim()).to_owned(), (share()?, share()?)))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn shares_of_functions_are_those_of_perf_report() {
    program("/tmp/stacks_mixed", build!("stacks"));
    // perf has no kernel's frames of a system call's entry.
    let own = format!("{EVENT} {{ record(ustack) }}");
    record_both((EVENT, &own), &["-g"], &["/tmp/stacks_mixed", "mixed", "30"]);
    let of_comm = [
        "--percentage",
        "relative",
        "--comm",
        "stacks_mixed",
        "--sort",
        "comm,sym",
    ];
    let options = [
        "report",
        "--stdio",
        "-i",
        PERF,
        "--children",
        "-g",
        "none",
        "--percent-limit",
        "0",
    ];
    let perf = run("perf", &[&options[..], &of_comm].concat());
    let all = ["report", "-g=none", "--percent-limit", "0", TRACE];
    let (perf, ours) = (shares(&perf.out), shares(&kestrel(&all).success()));
    let json = kestrel(&[&all[..], &["--format", "json"]].concat()).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // 30 calls by one way and 10 by the other; what the kernel did not bring to the program shifts all shares.
    let missed = 40 - json["total"].as_u64().unwrap();
    let bound = 0.011 + 100.0 * missed as f64 / 40.0;
    // Below main there may be what no frame pointer led to, which perf names by another byte.
    for name in [
        "leaf",
        "middle",
        "outer",
        "shop::open",
        "shop::Till::ring",
        "main",
    ] {
        let (children, own) = perf[name];
        let (our_children, our_own) = ours[name];
        let near = (children - our_children).abs() <= bound && (own - our_own).abs() <= bound;
        assert!(
            near,
            "{name}: perf {children} {own}, kestrel {our_children} {our_own}"
        );
    }
    assert!(
        (ours["outer"].0 - 75.0).abs() <= bound && (ours["shop::open"].0 - 25.0).abs() <= bound,
        "{ours:?}"
    );
}

#[test]
fn stacks_beyond_8_kib_are_those_of_perf() {
    program("/tmp/stacks_deep", build!("stacks_frameless"));
    // Each function has a little more than 1,000 bytes on the stack.
    for (levels, how) in [("6", "dwarf"), ("60", "dwarf,65528")] {
        let found = both(
            EVENT,
            &["--call-graph", how],
            "stacks_deep",
            &["/tmp/stacks_deep", "deep", "3", levels],
        );
        compare(&found, false, &["leaf", "down"]);
        for stack in &found.1 {
            let count = stack.iter().filter(|it| it.name.starts_with("down+")).count();
            assert_eq!(count, levels.parse::<usize>().unwrap() + 1, "{stack:#?}");
            assert!(
                stack.last().is_some_and(|it| it.name.starts_with("_start+")),
                "{stack:#?}"
            );
        }
    }
}
