//! Filters, groups and latencies of a recording equal what its command is known to have done.

use serde_json::Value;
use std::fs;
use vm_tests::kestrel;
use vm_tests::recording::counts;

const TRACE: &str = "/tmp/asked.trace";
const ENTER: &str = "syscalls:sys_enter_getppid";
const EXIT: &str = "syscalls:sys_exit_getppid";
/// Calls of the one command and of the other.
const CALLS: [u64; 2] = [300, 20];

/// The answer of `report` as data.
fn report(options: &[&str]) -> Value {
    let run = kestrel(&[&["report", TRACE, "--format", "json"], options].concat());
    assert_eq!(run.code, Some(0), "{options:?}: {}", run.err);
    let answer = serde_json::from_str(&run.out);
    answer.unwrap_or_else(|error| panic!("{options:?}: {error}: {}", run.out))
}

fn lines(options: &[&str]) -> u64 {
    let run = kestrel(&[&["print", TRACE], options].concat());
    assert_eq!(run.code, Some(0), "{options:?}: {}", run.err);
    run.out.lines().count() as u64
}

#[test]
fn questions_are_answered_with_the_numbers_of_calls() {
    let line = format!("calls getppid {}; calls getppid {}; true", CALLS[0], CALLS[1]);
    let events = format!("{ENTER},{EXIT}");
    let run = kestrel(&["record", "-o", TRACE, "-e", &events, "--", "sh", "-c", &line]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let summary = counts(&run.err);
    assert_eq!(summary.lost, 0, "{}", run.err);
    let explains = |found: u64, calls: u64| {
        assert!(
            summary.explain(found as usize, calls as usize),
            "{found} of {calls}: {summary:?}"
        )
    };

    let all = CALLS.iter().sum::<u64>();
    let entered = lines(&["-e", "sys_enter_getppid", "--comm", "calls"]);
    explains(entered, all);
    assert_eq!(
        entered,
        lines(&[
            "--where",
            "comm == \"calls\" && probe == \"syscalls:sys_enter_getppid\""
        ])
    );
    // The shell is the parent of both.
    explains(lines(&["-e", EXIT, "--comm", "calls", "--where", "ret > 1"]), all);

    let by_process = report(&["-e", ENTER, "--comm", "calls", "--by", "pid"]);
    let mut found: Vec<u64> = Vec::new();
    for group in by_process["groups"].as_array().into_iter().flatten() {
        let (pid, count) = (&group["key"]["pid"], group["count"].as_u64().unwrap_or_default());
        assert_eq!(lines(&["-e", ENTER, "-p", &pid.to_string()]), count);
        found.push(count);
    }
    assert_eq!(found.len(), CALLS.len(), "{by_process}");
    found
        .iter()
        .zip(CALLS)
        .for_each(|(found, calls)| explains(*found, calls));

    let latencies = report(&["--comm", "calls", "--latency", "syscalls:*"]);
    let row = &latencies["latencies"][0];
    assert_eq!((&row["begin"], &row["end"]), (&ENTER.into(), &EXIT.into()));
    explains(row["ns"]["count"].as_u64().unwrap_or_default(), all);
    assert!(
        row["ns"]["min"].as_u64() > Some(0) && row["ns"]["max"].as_u64() >= row["ns"]["p99"].as_u64(),
        "{row}"
    );
    if summary.missed == 0 {
        assert_eq!(
            latencies["unpaired"].as_array().map(Vec::len),
            Some(0),
            "{latencies}"
        );
    }
    let removed = std::fs::remove_dir_all(TRACE);
    assert!(removed.is_ok(), "{removed:?}");
}

#[test]
fn users_and_groups_have_the_names_that_they_had_when_they_were_recorded() {
    const OWN: &str = "/tmp/asked-names.trace";
    const GROUP: &str = "/sys/fs/cgroup/asked by name";
    fs::create_dir_all(GROUP).expect("a cgroup");
    let line = format!("echo $$ > '{GROUP}/cgroup.procs' && exec calls getppid 10");
    let event = format!("{ENTER} {{ record(args, uid, cgroup) }}");
    let run = kestrel(&["record", "-o", OWN, "-e", &event, "--", "sh", "-c", &line]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    fs::remove_dir(GROUP).expect("the cgroup to be empty");
    let program = format!(
        "{ENTER} /comm == \"calls\"/ {{ @[username, cgroup_path(cgroup), cgroup_path(cgroup, \"cpu\")] = count() }}"
    );
    let run = kestrel(&["report", "-e", &program, OWN]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(
        run.out.contains("@[root, unified:/asked by name, "),
        "{}",
        run.out
    );
}
