//! Names of code in processes: of programs that are there, that are gone, that lie elsewhere than they say, and of code that a program makes.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use vm_tests::recording::record;
use vm_tests::recording::{Record, records};
use vm_tests::{kestrel, release_when_open, shell};

const PLAIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stacks"));
const STRIPPED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stacks_stripped"));
const PIE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stacks_pie"));

/// The system call that the innermost function makes.
const EVENT: &str = "syscalls:sys_enter_getpriority";

/// Puts a program into the guest.
fn program(path: &str, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// A session with the stacks of that system call, stopped at the end.
struct Session;

impl Session {
    fn start(mode: &str) -> Self {
        let table = format!(
            "buffer main {{ size = 1M; mode = {mode} }}\ntable main {{ {EVENT} {{ record(comm, ustack) }} }}\n"
        );
        fs::write("/tmp/user_symbols.kst", table).unwrap();
        kestrel(&["start", "/tmp/user_symbols.kst"]).success();
        Self
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = kestrel(&["stop"]);
    }
}

/// A process that is killed at the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records a command with stacks; gives what the recorder said, and the records.
fn recorded(trace: &str, command: &[&str]) -> (String, Vec<Record>) {
    let mut words = vec!["record", "-g", "-e", EVENT, "-o", trace, "--"];
    words.extend(command);
    let run = kestrel(&words);
    assert_eq!(run.code, Some(0), "{run:?}");
    (run.err, records(trace))
}

/// The frames of a record's user stack.
fn frames(record: &Record) -> Vec<String> {
    let stack = record.fields["ustack"].as_array().unwrap();
    stack
        .iter()
        .map(|frame| frame.as_str().unwrap().to_owned())
        .collect()
}

/// Whether a stack is that of the program at a path.
fn is_known(frames: &[String], path: &str) -> bool {
    let expected = ["leaf+", "middle+", "outer+", "main+"];
    frames.len() > expected.len()
        && expected
            .iter()
            .zip(frames)
            .all(|(name, frame)| frame.starts_with(name) && frame.ends_with(&format!(" ({path})")))
}

#[test]
fn functions_have_their_names_wherever_the_program_lies() {
    for (path, bytes) in [("/tmp/stacks", PLAIN), ("/tmp/stacks_pie", PIE)] {
        program(path, bytes);
        let (_, records) = recorded("/tmp/named.trace", &[path, "plain", "20"]);
        assert_eq!(records.len(), 20);
        for record in &records {
            assert!(is_known(&frames(record), path), "{:?}", frames(record));
        }
    }
}

#[test]
fn a_program_that_is_deleted_keeps_its_names() {
    program("/tmp/stacks_deleted", PLAIN);
    let opened = release_when_open("/tmp/stacks_deleted", "/tmp/stacks_deleted.held");
    let command = ["/tmp/stacks_deleted", "deleted", "5", "/tmp/stacks_deleted.held"];
    let (_, records) = recorded("/tmp/deleted.trace", &command);
    opened.join().unwrap();
    assert!(!fs::exists("/tmp/stacks_deleted").unwrap());
    assert_eq!(records.len(), 5);
    for record in &records {
        assert!(
            is_known(&frames(record), "/tmp/stacks_deleted"),
            "{:?}",
            frames(record)
        );
    }
}

#[test]
fn a_program_in_another_root_keeps_its_names() {
    program("/tmp/stacks_outside", PLAIN);
    fs::create_dir_all("/tmp/another_root").unwrap();
    // Another build than the one outside: taking that would give wrong names, or none.
    program("/tmp/another_root/inner", PIE);
    let command = [
        "/tmp/stacks_outside",
        "chroot",
        "400",
        "/tmp/another_root",
        "/inner",
        "/held",
    ];
    let opened = release_when_open("/tmp/another_root/inner", "/tmp/another_root/held");
    let (_, records) = recorded("/tmp/root.trace", &command);
    opened.join().unwrap();
    assert_eq!(records.len(), 400);
    for record in &records {
        assert!(is_known(&frames(record), "/inner"), "{:?}", frames(record));
    }
}

#[test]
fn generated_code_has_the_names_that_its_program_wrote() {
    program("/tmp/stacks_generating", PLAIN);
    let (_, records) = recorded(
        "/tmp/generated.trace",
        &["/tmp/stacks_generating", "generated", "5"],
    );
    assert_eq!(records.len(), 5);
    for record in &records {
        let frames = frames(record);
        assert!(
            frames[0].starts_with("generated_function+0xf (/tmp/perf-"),
            "{frames:?}"
        );
        assert!(frames[1].starts_with("generated+"), "{frames:?}");
        assert!(frames[2].starts_with("main+"), "{frames:?}");
    }
}

#[test]
fn generated_code_of_a_container_that_ended_keeps_its_names() {
    program("/tmp/stacks_outside", PLAIN);
    fs::create_dir_all("/tmp/container/tmp").unwrap();
    program("/tmp/container/inner", PIE);
    let command = [
        "/tmp/stacks_outside",
        "container",
        "3000",
        "/tmp/container",
        "/inner",
        "/held",
    ];
    // The container's root, through which its perf map is read.
    let opened = release_when_open("/tmp/container", "/tmp/container/held");
    let (printed, records) = recorded("/tmp/container.trace", &command);
    opened.join().unwrap();
    assert_eq!(records.len(), 3000, "{printed}");
    for record in &records {
        let frames = frames(record);
        // In there it is process 1.
        assert_eq!(frames[0], "generated_function+0xf (/tmp/perf-1.map)", "{printed}");
        assert!(frames[1].starts_with("generated+"), "{frames:?}");
        assert!(frames[1].ends_with(" (/inner)"), "{frames:?}");
    }
}

#[test]
fn names_are_shown_while_it_happens() {
    program("/tmp/stacks_live", PIE);
    let run = kestrel(&[
        "trace",
        "-g",
        "-e",
        EVENT,
        "--format",
        "json",
        "--",
        "/tmp/stacks_live",
        "plain",
        "20",
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let records: Vec<Record> = run.out.lines().map(record).collect();
    assert_eq!(records.len(), 20, "{run:?}");
    for record in &records {
        assert!(
            is_known(&frames(record), "/tmp/stacks_live"),
            "{:?}",
            frames(record)
        );
    }
    program("/tmp/stacks_live_generating", PLAIN);
    let event = format!("{EVENT} {{ record(ustack) }}");
    let command = ["/tmp/stacks_live_generating", "generated", "3"];
    let mut words = vec!["trace", "-e", &event, "--"];
    words.extend(command);
    let run = kestrel(&words);
    let lines = run
        .out
        .lines()
        .filter(|line| line.contains(" generated_function+0xf (/tmp/perf-"));
    assert_eq!(lines.count(), 3, "{run:?}");
    program("/tmp/stacks_live_stripped", STRIPPED);
    let run = kestrel(&[
        "trace",
        "-e",
        &event,
        "--",
        "/tmp/stacks_live_stripped",
        "plain",
        "5",
    ]);
    let reasons = run
        .err
        .lines()
        .filter(|line| line.contains("/tmp/stacks_live_stripped: it is stripped"));
    assert_eq!(reasons.count(), 1, "{run:?}");
}

#[test]
fn maps_count_by_stacks_with_names() {
    program("/tmp/stacks_map", PIE);
    let event = format!("{EVENT} {{ @[ustack(4), comm] = count(); @deep[kstack] = count() }}");
    let run = kestrel(&["trace", "-e", &event, "--", "/tmp/stacks_map", "plain", "9"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines: Vec<&str> = run.out.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| *line == "@[").unwrap();
    for (name, line) in ["leaf+", "middle+", "outer+", "main+"]
        .iter()
        .zip(&lines[at + 1..])
    {
        assert!(
            line.starts_with(name) && line.ends_with(" (/tmp/stacks_map)"),
            "{run:?}"
        );
    }
    assert_eq!(lines[at + 5], ", stacks_map]: 9", "{run:?}");
    let deep = lines.iter().position(|line| *line == "@deep[").unwrap();
    let end = lines[deep..].iter().position(|line| *line == "]: 9").unwrap();
    assert!(
        lines[deep..deep + end]
            .iter()
            .any(|line| line.starts_with("do_syscall_64+")),
        "{run:?}"
    );
    let run = kestrel(&[
        "trace",
        "--format",
        "json",
        "-e",
        &event,
        "--",
        "/tmp/stacks_map",
        "plain",
        "9",
    ]);
    let json: serde_json::Value = serde_json::from_str(run.out.lines().next().unwrap()).unwrap();
    let (key, count) = json["data"]["@"].as_object().unwrap().iter().next().unwrap();
    assert!(key.contains("\n    leaf+") && *count == 9, "{run:?}");
    // Of a session: of what runs.
    let table =
        format!("buffer main {{ size = 64K }}\ntable main {{ {EVENT} {{ @[ustack(3)] = count() }} }}\n");
    fs::write("/tmp/user_symbols.kst", table).unwrap();
    kestrel(&["start", "/tmp/user_symbols.kst"]).success();
    let _session = Session;
    let staying = Command::new("/tmp/stacks_map")
        .args(["staying", "5"])
        .spawn()
        .unwrap();
    let _staying = Process(staying);
    let shown = loop {
        let shown = kestrel(&["handler", "list", "-v"]).success();
        if shown.contains("]: 5") {
            break shown;
        }
    };
    assert!(
        shown.contains("leaf+") && shown.contains(" (/tmp/stacks_map)"),
        "{shown}"
    );
}

#[test]
fn a_dump_names_running_code_and_reports_ended_processes() {
    program("/tmp/stacks_staying", PIE);
    program("/tmp/stacks_ended", PIE);
    let _session = Session::start("overwrite");
    shell("/tmp/stacks_ended plain 4").success();
    let staying = Command::new("/tmp/stacks_staying")
        .args(["staying", "5"])
        .spawn()
        .unwrap();
    let staying = Process(staying);
    let pid = u64::from(staying.0.id());
    let trace = "/tmp/dumped.trace";
    let (printed, records) = loop {
        let run = kestrel(&["buffer", "dump", "-o", trace]);
        let records = records(trace);
        if records.iter().filter(|record| record.pid == pid).count() == 5 {
            break (run.err, records);
        }
    };
    for record in &records {
        let frames = frames(record);
        match record.pid == pid {
            true => assert!(is_known(&frames, "/tmp/stacks_staying"), "{frames:?}"),
            false => assert!(frames[0].starts_with("0x"), "{frames:?}"),
        }
    }
    assert!(printed.contains("1 process had ended"), "{printed}");
}

#[test]
fn a_log_names_processes_that_ended_meanwhile() {
    program("/tmp/stacks_logged", PIE);
    let folder = "/tmp/user_symbols_log";
    let _gone = fs::remove_dir_all(folder);
    let _session = Session::start("stream");
    let mut agent = Command::new("kestrel")
        .args(["agent", "--log", folder])
        .spawn()
        .unwrap();
    // The agent follows processes before it writes what they did.
    let is_kept = || {
        let sessions = fs::read_dir(folder).into_iter().flatten().flatten();
        let files = sessions.flat_map(|session| fs::read_dir(session.path()).into_iter().flatten());
        files
            .flatten()
            .any(|file| file.file_name().to_string_lossy().ends_with(".new"))
    };
    while !is_kept() {
        shell("/tmp/stacks_logged plain 100").success();
    }
    let mut last = Command::new("/tmp/stacks_logged")
        .args(["plain", "7"])
        .spawn()
        .unwrap();
    let pid = u64::from(last.id());
    assert!(last.wait().unwrap().success());
    shell(&format!("kill -INT {}", agent.id())).success();
    assert!(agent.wait().unwrap().success());
    let sessions = fs::read_dir(folder).unwrap().flatten();
    let files = sessions.flat_map(|session| fs::read_dir(session.path()).unwrap().flatten());
    let traces = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
    let all = traces.flat_map(|trace| records(trace.path().to_str().unwrap()));
    let of_last: Vec<Record> = all.filter(|record| record.pid == pid).collect();
    assert_eq!(of_last.len(), 7);
    for record in &of_last {
        assert!(
            is_known(&frames(record), "/tmp/stacks_logged"),
            "{:?}",
            frames(record)
        );
    }
}

#[test]
fn a_stripped_program_is_named_once_with_the_reason() {
    program("/tmp/stacks_stripped", STRIPPED);
    let (printed, records) = recorded("/tmp/stripped.trace", &["/tmp/stacks_stripped", "plain", "5"]);
    let reasons = printed
        .lines()
        .filter(|line| line.contains("/tmp/stacks_stripped: it is stripped"));
    assert_eq!(reasons.count(), 1, "{printed}");
    for record in &records {
        assert!(
            frames(record)[0].starts_with("[unknown] (/tmp/stacks_stripped+0x"),
            "{:?}",
            frames(record)
        );
    }
}

#[test]
fn two_hundred_short_processes_all_have_names() {
    program("/tmp/stacks_storm", PLAIN);
    let (printed, records) = recorded("/tmp/storm.trace", &["/tmp/stacks_storm", "storm", "200"]);
    let mut processes: BTreeMap<u64, usize> = BTreeMap::new();
    for record in &records {
        assert!(
            is_known(&frames(record), "/tmp/stacks_storm"),
            "{:?} {printed}",
            frames(record)
        );
        *processes.entry(record.pid).or_default() += 1;
    }
    assert_eq!(processes.len(), 200, "{printed}");
    assert!(processes.values().all(|calls| *calls == 3), "{printed}");
}

#[test]
fn stacks_become_call_graphs_folded_lines_and_flame_graphs() {
    program("/tmp/stacks_graph", PLAIN);
    let trace = "/tmp/graph.trace";
    recorded(trace, &["/tmp/stacks_graph", "plain", "30"]);
    let folded = kestrel(&["report", "--folded", trace]).success();
    let lines: Vec<&str> = folded.lines().collect();
    assert_eq!(lines.len(), 1, "{folded}");
    assert!(
        lines[0].starts_with("stacks_graph;") && lines[0].contains(";main;outer;middle;leaf;"),
        "{folded}"
    );
    assert!(lines[0].ends_with(" 30"), "{folded}");
    let graph = kestrel(&["report", "-g", trace]).success();
    assert!(graph.contains("# Samples: 30\n"), "{graph}");
    assert!(
        graph.contains("   100.00%    0.00%  stacks_graph  /tmp/stacks_graph"),
        "{graph}"
    );
    let json = kestrel(&["report", "-G", "--format", "json", trace]).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["total"], &json["unit"]), (&30.into(), &"samples".into()));
    let script = kestrel(&["print", "--format", "perf-script", trace]).success();
    assert_eq!(
        script
            .lines()
            .filter(|line| line.ends_with("(/tmp/stacks_graph)") && line.contains(" leaf+"))
            .count(),
        30
    );
    let printed = kestrel(&["report", "--flame", "/tmp/graph.svg", trace]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let svg = fs::read_to_string("/tmp/graph.svg").unwrap();
    assert!(
        svg.contains("<title>leaf (30 samples, 100.00%)</title>"),
        "{}",
        &svg[..500]
    );
    let lines = kestrel(&["print", "--lines", trace]).success();
    // Inlined into middle: it stands right before it.
    let frame = |line: &&str| line.contains(" inlined /") && line.contains(" (inlined) <- middle+");
    assert_eq!(lines.lines().filter(frame).count(), 30, "{lines}");
    assert!(lines.contains("stacks.c:"), "{lines}");
}

#[test]
fn a_profile_samples_running_code_and_time_off_the_cpu_is_weighed() {
    let trace = "/tmp/profile.trace";
    let run = kestrel(&[
        "record", "-F", "99", "-g", "-a", "-o", trace, "--", "calls", "function", "3000000",
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let script = kestrel(&["print", "--format", "perf-script", trace]).success();
    assert!(
        script.contains("   10101010 cpu-clock:"),
        "{}",
        &script[..script.len().min(600)]
    );
    let trace = "/tmp/off.trace";
    let command = [
        "record",
        "-g",
        "-e",
        "sched:sched_switch",
        "-a",
        "-o",
        trace,
        "--",
        "sleep",
        "0.5",
    ];
    assert_eq!(kestrel(&command).code, Some(0));
    let folded = kestrel(&["report", "--off-cpu", "--folded", trace]).success();
    let slept: u64 = folded
        .lines()
        .filter(|line| line.starts_with("sleep;"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    // µs; waiting for the CPU may add to it as much as it likes.
    assert!(slept >= 490_000, "{folded}");
    let none = kestrel(&["report", "-g", "/tmp/none.trace"]);
    assert_ne!(none.code, Some(0));
    let without = "/tmp/without.trace";
    assert_eq!(
        kestrel(&[
            "record",
            "-e",
            EVENT,
            "-o",
            without,
            "--",
            "calls",
            "getpriority",
            "3"
        ])
        .code,
        Some(0)
    );
    let refused = kestrel(&["report", "-g", without]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("has no call stacks") && refused.err.contains("record -g"),
        "{refused:?}"
    );
}
