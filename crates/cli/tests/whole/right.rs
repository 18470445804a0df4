//! The ordinary uses: help, lists, formats, several events, commands and their ends.

use crate::command::{WorkFolder, has, needs_tracing};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn alone_it_shows_help() {
    let answer = WorkFolder::new().run(&[]).succeeds();
    for word in ["Usage: kestrel", "record", "Examples:", "Exit codes:"] {
        assert!(answer.out.contains(word), "{}", answer.out);
    }
}

#[test]
fn every_command_has_examples_in_its_help() {
    for command in ["list", "record", "trace", "print", "report", "sched"] {
        let answer = WorkFolder::new().run(&[command, "--help"]).succeeds();
        assert!(answer.out.contains("Examples:"), "{command}: {}", answer.out);
        assert!(answer.out.contains(&format!("kestrel {command}")), "{command}");
    }
}

#[test]
fn lists_and_formats() {
    needs_tracing!();
    let place = WorkFolder::new();
    let text = place.run(&["list", "sched:sched_sw*"]).succeeds().out;
    assert!(text.lines().any(|line| line == "tracepoint:sched:sched_switch"));
    let verbose = place.run(&["list", "-v", "sched:sched_switch"]).succeeds().out;
    assert!(verbose.contains("    pid_t prev_pid\n"), "{verbose}");
    let json = place
        .run(&["list", "--format", "json", "sched:sched_switch"])
        .succeeds()
        .out;
    let line: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(line["event"], "tracepoint:sched:sched_switch");
    place.run(&["list", "no*such:thing"]).fails(1, &["no*such:thing"]);
}

#[test]
fn doctor_speaks_json() {
    let answer = WorkFolder::new().run(&["doctor", "--format", "json"]);
    for line in answer.out.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["name"].is_string() && line["works"].is_boolean());
    }
    assert!(answer.out.lines().count() > 10);
}

#[test]
fn several_events_in_one_trace() {
    needs_tracing!();
    let place = WorkFolder::new();
    let events = "syscalls:sys_enter_openat,syscalls:sys_exit_openat";
    // The dashes before the command may be left out, as perf has it.
    place
        .run(&[
            "record",
            "-e",
            events,
            "-e",
            "sched:sched_process_exit",
            "cat",
            "/dev/null",
        ])
        .succeeds();
    let lines = place.run(&["print", "--format", "json"]).succeeds().out;
    let names: std::collections::BTreeSet<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["event"].as_str().unwrap().to_owned())
        .collect();
    let wanted = [
        "sched:sched_process_exit",
        "syscalls:sys_enter_openat",
        "syscalls:sys_exit_openat",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), wanted);
    let report = place.run(&["report", "--format", "json"]).succeeds().out;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["records"], lines.lines().count());
    let tables = place.run(&["report"]).succeeds().out;
    assert!(
        tables.contains("lost 0") && !tables.contains('\x1b'),
        "no colours in a pipe"
    );
}

#[test]
fn the_commands_exit_is_reported() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = |script: &str| {
        place.run(&[
            "record",
            "-e",
            "sched:sched_process_exit",
            "--",
            "sh",
            "-c",
            script,
        ])
    };
    record("exit 0").succeeds();
    record("exit 7").fails(1, &["exit status: 7"]);
    record("kill -9 $$").fails(1, &["signal: 9"]);
    place.run(&["print"]).succeeds();
}

#[test]
fn a_command_that_is_traced_has_its_name() {
    needs_tracing!();
    let place = WorkFolder::new();
    fs::copy("/bin/sh", place.path().join("by-its-name")).unwrap();
    let trace = |format: &str| {
        let event = "syscalls:sys_enter_exit_group";
        place
            .run(&[
                "trace",
                "--format",
                format,
                "-e",
                event,
                "--",
                "./by-its-name",
                "-c",
                ":",
            ])
            .succeeds()
            .out
    };
    for _ in 0..5 {
        let line = trace("text");
        assert!(line.contains("by-its-name-"), "{line}");
        let line: Value = serde_json::from_str(&trace("json")).unwrap();
        assert_eq!(line["comm"], "by-its-name", "{line}");
    }
}

#[test]
fn children_are_traced_with_their_command() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = ["record", "-e", "sched:sched_process_exec"];
    let command = ["--", "sh", "-c", "true; /bin/true; (/bin/true)"];
    let is_whole = || {
        let lines = place.run(&["print"]).succeeds().out;
        assert_eq!(lines.matches("filename=/bin/true").count(), 2, "{lines}");
        // And the exec from which the command is traced.
        let own = lines.lines().next().unwrap();
        assert!(own.contains("/sh"), "{lines}");
    };
    let inner = [&record[..], &command].concat();
    place.run(&inner).succeeds();
    is_whole();
    // Beside perf, which came to the event's tracepoint before.
    let kestrel = env!("CARGO_BIN_EXE_kestrel");
    let outer = ["--via", "classic", "-o", "outer", "--", kestrel];
    place.run(&[&record[..], &outer, &inner].concat()).succeeds();
    is_whole();
}

/// The text that a handler prints is in a recording as an event, whose line is shown as it was printed; `exit` ends the recording.
#[test]
fn a_recording_shows_what_handlers_printed() {
    needs_tracing!();
    let place = WorkFolder::new();
    let event = r#"sched:sched_process_exec { printf("%s of two\nlines\n", "first"); if (comm == "cat") { exit() } }"#;
    let script = "/bin/cat /dev/null; exec sleep 60";
    place
        .run(&["record", "-e", event, "--", "sh", "-c", script])
        .succeeds();
    let lines = place.run(&["print"]).succeeds().out;
    assert!(
        lines.contains(": sched:sched_process_exec: first of two\n                lines\n"),
        "{lines}"
    );
}

/// A process gives back its memory and files behind `sched_process_exit`; its last act is to leave its processor for good.
#[test]
fn a_process_is_traced_to_its_last_switch() {
    needs_tracing!();
    let place = WorkFolder::new();
    let events = "sched:sched_process_exit,sched:sched_switch";
    let script = "/bin/cat /dev/null; sleep 0.2";
    place
        .run(&["record", "-e", events, "--", "sh", "-c", script])
        .succeeds();
    let lines = place.run(&["print", "--format", "json"]).succeeds().out;
    let records: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let exit = records
        .iter()
        .position(|record| record["event"] == "sched:sched_process_exit" && record["fields"]["comm"] == "cat")
        .unwrap_or_else(|| panic!("{lines}"));
    let left = |record: &serde_json::Value| {
        record["event"] == "sched:sched_switch" && record["pid"] == records[exit]["pid"]
    };
    assert!(records[exit..].iter().any(left), "{lines}");
}

#[test]
fn a_dry_run_loads_nothing_and_reads_well() {
    needs_tracing!();
    let place = WorkFolder::new();
    let plan = place.run(&[
        "record",
        "--dry-run",
        "-v",
        "-e",
        "sched:sched_switch",
        "--",
        "touch",
        "ran",
    ]);
    let plan = plan.succeeds().out;
    assert!(
        plan.contains("sched:sched_switch") && plan.contains("exit"),
        "{plan}"
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    needs_tracing!();
    let place = WorkFolder::new();
    place
        .run(&["record", "-a", "-e", "raw_syscalls:*", "--duration", "300ms"])
        .succeeds();
    for arguments in [
        &["print"][..],
        &["list"],
        &["trace", "-a", "-e", "raw_syscalls:*", "--duration", "20"],
    ] {
        let mut child = place
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        drop(out);
        let answer = crate::command::Answer::from(child.wait_with_output().unwrap()).succeeds();
        // A busy machine may fill the ring before the pipe is found closed.
        let losses = |line: &str| line.starts_with("lost ") && line.ends_with(": the ring was full");
        assert!(answer.err.lines().all(losses), "{arguments:?}: {}", answer.err);
    }
}

#[test]
fn ctrl_c_ends_with_everything_written_and_nothing_attached() {
    needs_tracing!();
    let place = WorkFolder::new();
    let mut child = place
        .command(&["record", "-v", "-a", "-e", "sched:sched_switch"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("recording into ") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0);
    }
    let pid = child.id().to_string();
    let held = programs_of(child.id());
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(place.run(&["print"]).succeeds().out.contains("sched_switch"));
    assert!(!held.is_empty(), "it had programs");
    if !has("bpftool") {
        return;
    }
    // The kernel frees programs a grace period after their last user.
    let until = Instant::now() + Duration::from_secs(60);
    while held.iter().any(|id| is_loaded(*id)) {
        assert!(Instant::now() < until, "programs stayed: {held:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn addresses_of_sockets_are_shown_as_the_kernel_shows_them() {
    needs_tracing!();
    let place = WorkFolder::new();
    // Nothing listens on this port: a refused connection is an event, too.
    let connect = "exec 3<>/dev/tcp/127.0.0.1/9";
    let event = "sock:inet_sock_set_state";
    place.run(&["record", "-o", "t", "-e", event, "--", "bash", "-c", connect]);
    let lines = place.run(&["print", "t"]).succeeds().out;
    let asked = " saddr=127.0.0.1 daddr=127.0.0.1 saddr_v6=::ffff:127.0.0.1 ";
    assert!(lines.contains(asked), "{lines}");
    let lines = place
        .run(&["print", "--format", "perf-script", "t"])
        .succeeds()
        .out;
    assert!(lines.contains(asked), "{lines}");
    for (format, tool, command) in [
        ("perf-data", "perf", "script"),
        ("trace-dat", "trace-cmd", "report"),
    ] {
        place.run(&["export", "--to", format, "-o", tool, "t"]).succeeds();
        if has(tool) {
            let mut read = std::process::Command::new(tool);
            read.args([command, "-i", tool]).current_dir(place.path());
            let lines = String::from_utf8_lossy(&read.output().unwrap().stdout).into_owned();
            assert!(lines.contains(asked), "{tool}: {lines}");
        }
    }
    // Programs get the bytes.
    let records = place.json_lines(&["print", "--records", "t"]);
    assert_eq!(records[0]["fields"]["daddr"], serde_json::json!([127, 0, 0, 1]));
}

/// The numbers of the BPF programs that a process holds, as the kernel's information about each descriptor has them.
fn programs_of(pid: u32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
    let id = |text: String| {
        text.lines()
            .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    };
    texts.filter_map(id).collect()
}

fn is_loaded(program: u64) -> bool {
    let shown = Command::new("bpftool")
        .args(["prog", "show", "id", &program.to_string()])
        .output();
    shown.is_ok_and(|output| output.status.success())
}
