//! Compiled objects: run as users run them, counted against calls that the test makes, and nothing left behind that should not be.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel_kernel::bpf::{self, Pinned};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::fd::AsFd,
    path::Path,
    process::{Child, Command, Stdio},
};
use vm_tests::{TRACEFS, kestrel, shell, version};

/// What the kernel holds of BPF, and which probes tracefs has.
fn held() -> (Vec<u32>, Vec<u32>, Vec<u32>, String) {
    let probes = fs::read_to_string(format!("{TRACEFS}/kprobe_events")).unwrap();
    (
        bpf::program_ids().unwrap(),
        bpf::link_ids().unwrap(),
        bpf::map_ids().unwrap(),
        probes,
    )
}

/// Maps and programs go a little after their last user: what must be gone is waited for.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..200 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("{what} does not come");
}

fn gone(before: &(Vec<u32>, Vec<u32>, Vec<u32>, String)) {
    wait_for(
        &format!("the state of before, {before:?}; now {:?}", held()),
        || held() == *before,
    );
}

/// `kestrel bpf run …`, once it says that it runs.
struct Run {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Run {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new("kestrel")
            .args(["bpf", "run"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim() != "Running." {
            line.clear();
            if out.read_line(&mut line).unwrap() == 0 {
                let output = child.wait_with_output().unwrap();
                panic!(
                    "{arguments:?} does not run: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
        Self { child, out }
    }

    /// Ctrl-C, and what it said until its end.
    fn end(self) -> (String, String) {
        shell(&format!("kill -INT {}", self.child.id())).success();
        self.wait()
    }

    fn wait(mut self) -> (String, String) {
        let mut out = String::new();
        std::io::Read::read_to_string(&mut self.out, &mut out).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        (out, err)
    }
}

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
fn the_classic_object_counts_what_was_called_and_leaves_its_pin_alone() {
    let before = held();
    let run = Run::start(&["/object_classic.o", "ksys_read"]);
    reads_by(57, 30);
    reads_by(58, 20);
    run.end();
    let (all, ours) = counters();
    assert_eq!(ours, 30);
    assert!(all >= 50, "{all}");
    assert_eq!(bpf::link_ids().unwrap(), before.1);
    wait_for("the end of its program", || {
        bpf::program_ids().unwrap() == before.0
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
    // Inside of the function an instruction must begin there; the kernel knows where.
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
    assert!(codes.contains(&Some(0)) && codes.contains(&Some(4)), "{codes:?}");
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
    assert!(held().3.contains("kestrel_"));
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    assert!(held().3.contains("kestrel_"), "a kill leaves it");
    let alive = Run::start(&["/object_older.o", "--via", "tracefs"]);
    let ours = format!("kestrel_{}_", alive.child.id());
    let swept = held().3;
    assert_eq!(
        swept.matches("kestrel_").count(),
        swept.matches(&ours).count(),
        "{swept}"
    );
    let second = Run::start(&["/object_older.o", "--via", "tracefs"]);
    assert!(held().3.contains(&ours), "who lives keeps theirs");
    second.end();
    alive.end();
    let left = held().3;
    assert!(
        left.contains("theirs/probe") && !left.contains("kestrel_"),
        "{left}"
    );
    shell(&format!("echo '-:theirs/probe' >> {TRACEFS}/kprobe_events")).success();
    gone(&before);
}

/// The values of the last showing of maps in JSON: by map and key.
fn last_value(out: &str, map: &str, key: u64) -> Value {
    let mut lines = out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .rfind(|line| line["map"] == map && line["key"] == key)
        .unwrap_or_else(|| panic!("no {map}[{key}] in {out}"))["value"]
        .clone()
}

/// Hits that the kernel skipped, of all programs: on some kernels a program that is preempted makes others miss.
fn skipped(out: &str) -> u64 {
    let lines = out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut last = std::collections::BTreeMap::new();
    for line in lines.filter(|line| line["program"].is_string()) {
        last.insert(
            line["program"].to_string(),
            line["skipped"].as_u64().unwrap() + line["missed"].as_u64().unwrap(),
        );
    }
    last.values().sum()
}

/// Runs an object while this process makes so many reads of one byte and calls of getppid; what it showed.
fn shown(arguments: &[&str], count: u64) -> String {
    let wanted = format!("wanted={}", std::process::id());
    let all = [
        arguments,
        &[
            "--set",
            &wanted,
            "--maps",
            "--stats",
            "--format",
            "json",
            "--interval",
            "60",
        ],
    ]
    .concat();
    let mut child = Command::new("kestrel")
        .args(["bpf", "run"])
        .args(all)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let mut said = String::new();
    while line.trim() != "Running." {
        line.clear();
        if err.read_line(&mut line).unwrap() == 0 {
            panic!("{arguments:?} does not run: {said}");
        }
        said += &line;
    }
    vm_tests::read_calls(count).unwrap();
    vm_tests::getppid_calls(count);
    shell(&format!("kill -INT {}", child.id())).success();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

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
    let out = shown(&arguments, count);
    let values = last_value(&out, ".bss", 0);
    let runs: Vec<u64> = values["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_u64().unwrap())
        .collect();
    let lost = skipped(&out);
    println!("runs {runs:?}, skipped {lost}, session {session}");
    let about = |index: usize, what: &str| {
        assert!(
            runs[index] <= count + 20 && runs[index] + lost >= count,
            "{what}: {} of {count}, {lost} skipped",
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
    let arguments = [
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
    gone(&before);
}

#[test]
fn a_field_that_was_renamed_is_found_by_whatever_name() {
    let before = held();
    let out = shown(&["/object_core.o"], 5);
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
fn what_is_kept_goes_on_after_the_end() {
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

#[test]
fn refusals_say_why_and_leave_nothing() {
    let before = held();
    let says = |arguments: &[&str], code: i32, words: &[&str]| {
        let run = kestrel(&[&["bpf", "run"], arguments].concat());
        assert_eq!(run.code, Some(code), "{arguments:?}: {}{}", run.out, run.err);
        for word in words {
            assert!(
                run.err.contains(word),
                "{arguments:?} should say {word:?}: {}",
                run.err
            );
        }
    };
    says(
        &["/object_refused.o"],
        1,
        &["map_value_or_null", "refused.c:", "return *value;", "hint: test"],
    );
    says(&["/object_classic.o", "vfs_raed"], 2, &["vfs_raed", "vfs_read"]);
    says(&["/object_classic.o", "vfs_read+0x1000000"], 4, &["instruction"]);
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
    let whole = fs::read("/object_modern.o").unwrap();
    fs::write("/tmp/cut.o", &whole[..whole.len() / 2]).unwrap();
    says(&["/tmp/cut.o"], 2, &["cut"]);
    assert!(!Path::new("/sys/fs/bpf/tc").exists());
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
    let mutants: usize = std::env::var("KESTREL_MUTANTS").map_or(300, |number| number.parse().unwrap());
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
        // Most go through the library, which is all that the command does; some through the command itself.
        if number % 20 == 0 {
            fs::write("/tmp/mutant.o", &bytes).unwrap();
            let run = kestrel(&["bpf", "run", "/tmp/mutant.o", "--duration", "0"]);
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
