//! `kestrel stat` on this machine: counts against programs that make a known number of calls, and against perf's of the same run.

use crate::command::{WorkFolder, has, needs_tracing};
use crate::counts::{EVENT, missed, with_calls};
use serde_json::Value;
use std::process::{Command, Stdio};

const CALLS: u64 = 20_000;

/// Output of `stat` with these options about the calls: its rows, in columns after a tab, and the rest of the text.
fn rows(options: &[&str]) -> (Vec<Vec<String>>, String) {
    let place = WorkFolder::new();
    let mut all = vec!["stat", "-x", "\t", "-o", "counts"];
    all.extend(options);
    let output = with_calls(place.command(&all), CALLS).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}");
    let text = std::fs::read_to_string(place.path().join("counts")).unwrap();
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect();
    (text.lines().map(fields).collect(), printed)
}

/// The sum of the counts of an event, which stand `at` this place of its rows, the event two behind it.
fn sum(rows: &[Vec<String>], at: usize, event: &str) -> u64 {
    let of_event = rows.iter().filter(|row| row[at + 2] == event);
    of_event.map(|row| row[at].parse::<u64>().unwrap()).sum()
}

/// All calls, or what is missing was said.
#[track_caller]
fn is_all(counted: u64, printed: &str) {
    assert!(
        counted <= CALLS && counted + missed(printed) >= CALLS,
        "{counted}: {printed}"
    );
}

#[test]
fn each_call_is_counted_by_itself_among_others_by_cpu_and_by_value() {
    needs_tracing!();
    let (one, printed) = rows(&["-e", EVENT]);
    assert_eq!(one.len(), 1);
    is_all(sum(&one, 0, EVENT), &printed);

    let (among, printed) = rows(&[
        "-e",
        "syscalls:sys_enter_getp*,sched:sched_process_exec",
        "-e",
        "task-clock",
    ]);
    is_all(sum(&among, 0, EVENT), &printed);
    assert!(
        among.iter().any(|row| row[0] == "0"),
        "what did not come is shown: {among:?}"
    );
    let executed = sum(&among, 0, "sched:sched_process_exec");
    assert!(
        executed <= 1 && executed + missed(&printed) >= 1,
        "{executed}: {printed}"
    );
    assert_eq!(among.last().unwrap()[1..3], ["msec", "task-clock"]);

    let (by_cpu, printed) = rows(&["--per-cpu", "-e", EVENT]);
    assert!(by_cpu.iter().all(|row| row[0].starts_with("CPU")), "{by_cpu:?}");
    is_all(sum(&by_cpu, 1, EVENT), &printed);

    let (by_value, printed) = rows(&["--by", "pid == 1, comm", "-e", EVENT]);
    assert!(by_value.iter().all(|row| row[0] == "false"), "{by_value:?}");
    is_all(sum(&by_value, 2, EVENT), &printed);

    let (by_thread, printed) = rows(&["--per-thread", "-e", EVENT]);
    is_all(sum(&by_thread, 1, EVENT), &printed);
}

#[test]
fn intervals_add_up_to_the_calls() {
    needs_tracing!();
    for split in [&[][..], &["--per-cpu"], &["--by", "cpu"]] {
        let mut options = vec!["-I", "1", "-e", EVENT];
        options.extend(split);
        let (intervals, printed) = rows(&options);
        let at = if split.is_empty() { 1 } else { 2 };
        is_all(sum(&intervals, at, EVENT), &printed);
        let times: Vec<f64> = intervals
            .iter()
            .map(|row| row[0].trim().parse().unwrap())
            .collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}

#[test]
fn a_predicate_filters_counts() {
    needs_tracing!();
    let text = format!("{EVENT} /comm == \"no such\"/");
    let (none, _) = rows(&["-e", &text, "-e", EVENT]);
    assert_eq!(sum(&none, 0, &text), 0);
    assert_eq!(none.len(), 2);
    assert!(sum(&none, 0, EVENT) > 0);
}

#[test]
fn counts_are_perfs_of_the_same_run() {
    needs_tracing!();
    if !has("perf") {
        return;
    }
    let place = WorkFolder::new();
    let events = "syscalls:sys_enter_getppid,page-faults,context-switches:u";
    let mut ours = place.command(&[
        "stat",
        "-x",
        ",",
        "-o",
        "ours",
        "-e",
        EVENT,
        "-e",
        "page-faults",
        "--",
    ]);
    ours.args(["perf", "stat", "-x", ",", "-o", "perfs", "-e", events]);
    let output = with_calls(ours, CALLS).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}");
    let counts = |file: &str| -> Vec<u64> {
        let text = std::fs::read_to_string(place.path().join(file)).unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        lines
            .map(|line| line.split(',').next().unwrap().parse().unwrap())
            .collect()
    };
    let (ours, perfs) = (counts("ours"), counts("perfs"));
    assert_eq!(perfs[0], CALLS);
    is_all(ours[0], &printed);
    assert!(
        ours[1] > perfs[1],
        "perf has faults of its own: {ours:?} {perfs:?}"
    );
}

#[test]
fn page_faults_of_a_command_are_perfs() {
    needs_tracing!();
    if !has("perf") {
        return;
    }
    let place = WorkFolder::new();
    // As many each time, but for a few.
    let fault = |program: &mut Command| -> u64 {
        let file = place.path().join("faults");
        let output = program.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = std::fs::read_to_string(file).unwrap();
        let line = text.lines().find(|line| line.contains("page-faults")).unwrap();
        line.split(',').next().unwrap().parse().unwrap()
    };
    let options = [
        "stat",
        "-x",
        ",",
        "-o",
        "faults",
        "-e",
        "page-faults",
        "--",
        "sh",
        "-c",
        "true",
    ];
    let ours = fault(&mut place.command(&options));
    let perfs = fault(Command::new("perf").args(options).current_dir(place.path()));
    assert!(ours.abs_diff(perfs) <= 10, "{ours} and {perfs}");
}

#[test]
fn several_runs_have_a_mean() {
    needs_tracing!();
    let (mean, printed) = rows(&["-r", "3", "-e", EVENT]);
    assert_eq!(mean.len(), 1);
    let counted: u64 = mean[0][0].parse().unwrap();
    assert!(
        counted <= CALLS && counted + missed(&printed) >= CALLS,
        "{mean:?} {printed}"
    );
    assert!(mean[0][3].ends_with('%'), "{mean:?}");
    let place = WorkFolder::new();
    let text = place.run(&["stat", "-r", "2", "--", "true"]).succeeds();
    assert!(
        text.err.contains("'true' (2 runs):") && text.err.contains(" +- "),
        "{}",
        text.err
    );
}

#[test]
fn a_machine_without_a_counter_says_so_and_counts_the_rest() {
    needs_tracing!();
    let place = WorkFolder::new();
    let answer = place.run(&["stat", "--", "true"]).succeeds();
    assert_eq!(answer.out, "", "standard output is the command's");
    for words in [
        "task-clock",
        "CPUs utilized",
        "branch-misses",
        "seconds time elapsed",
        "seconds user",
    ] {
        assert!(answer.err.contains(words), "{}", answer.err);
    }
    let group = [
        "stat",
        "--format",
        "json",
        "-e",
        "{r7fffffff,instructions},page-faults",
        "-a",
        "--duration",
        "10ms",
    ];
    let answer = place.run(&group).succeeds();
    let rows: Vec<Value> = answer
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[2]["event"], "page-faults");
    assert!(rows[2]["counter-value"].is_u64(), "{}", answer.out);
    assert!(rows[2]["event-runtime"].as_u64().unwrap() > 0);
}

#[test]
fn processes_and_threads_are_counted_until_they_end() {
    needs_tracing!();
    let place = WorkFolder::new();
    let busy = || {
        let script = "read go; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done";
        Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for option in ["-p", "-t"] {
        let mut child = busy();
        let pid = child.id().to_string();
        let options = [
            "stat",
            "-x",
            ",",
            option,
            &pid,
            "-e",
            "task-clock",
            "-e",
            "raw_syscalls:sys_enter",
            "-o",
            "counts",
        ];
        let mut counting = place.command(&options).stderr(Stdio::piped()).spawn().unwrap();
        // Its output file is there before it begins to count; that it counts shows in its perf event.
        let has_begun = || {
            let links = std::fs::read_dir(format!("/proc/{}/fd", counting.id()))
                .into_iter()
                .flatten()
                .flatten();
            links
                .filter_map(|link| std::fs::read_link(link.path()).ok())
                .any(|to| to.to_string_lossy().contains("perf_event"))
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !has_begun() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(counting.wait().unwrap().success());
        let text = std::fs::read_to_string(place.path().join("counts")).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}

#[test]
fn wrong_options_are_refused_before_the_command_runs() {
    let place = WorkFolder::new();
    let fails = |arguments: &[&str], code, words: &[&str]| place.run(arguments).fails(code, words);
    fails(&["stat", "-r", "3"], 2, &["no command to repeat", "hint:"]);
    fails(&["stat", "-a", "-p", "1"], 2, &["cannot be used with"]);
    fails(&["stat", "-C", "x"], 2, &["--cpu", "CPU list"]);
    fails(&["stat", "-p", "4194304"], 1, &["4194304", "no such process"]);
    fails(&["stat", "-t", "4194304"], 1, &["no such thread"]);
    fails(&["stat", "-I", "0", "--", "true"], 2, &["--interval"]);
    let ran = place.path().join("ran");
    let touch = ran.to_str().unwrap();
    fails(
        &["stat", "-e", "cycless", "--", "touch", touch],
        2,
        &["no counter `cycless`", "cycles"],
    );
    fails(
        &["stat", "-e", "cycles /pid == 3/", "--", "touch", touch],
        2,
        &["cycles alone"],
    );
    fails(
        &[
            "stat",
            "-e",
            "sched:sched_switch { record() }",
            "--",
            "touch",
            touch,
        ],
        2,
        &["a block has no place here"],
    );
    fails(
        &["stat", "--by", "comm", "--", "touch", touch],
        2,
        &["--by", "counters have no fields"],
    );
    fails(
        &["stat", "-o", "/nosuch/file", "--", "touch", touch],
        1,
        &["cannot write /nosuch/file"],
    );
    assert!(!ran.exists(), "the command never ran");
}
