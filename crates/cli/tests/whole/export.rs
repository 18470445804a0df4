//! `export`: what it writes of a recording of this machine, and what it refuses. What is in the files the tools that read them say (tests of the trace crate).

use crate::command::{WorkFolder, has, needs_tracing};

/// A recording of a command, with stacks; gives how many events it has.
fn record(place: &WorkFolder) -> usize {
    let with_stacks = "syscalls:sys_enter_openat { record(args, kstack, ustack) }";
    let events = "syscalls:sys_exit_openat,sched:sched_process_exit";
    place
        .run(&[
            "record",
            "-o",
            "t",
            "-e",
            with_stacks,
            "-e",
            events,
            "--",
            "cat",
            "/etc/passwd",
        ])
        .succeeds();
    place.run(&["print", "--records", "t"]).succeeds();
    place.json_lines(&["print", "--records", "t"]).len()
}

#[test]
fn every_format_has_every_event() {
    needs_tracing!();
    let place = WorkFolder::new();
    let all = record(&place);
    assert!(all >= 3, "{all}");
    for format in ["perf-data", "trace-dat", "perfetto", "chrome", "parquet", "pprof"] {
        let answer = place.run(&["export", "--to", format, "-o", &format!("a/{format}"), "t"]);
        let answer = answer.succeeds();
        let printed = format!("{all} events in a/{format}");
        assert!(answer.err.contains(&printed), "no {printed:?} in {}", answer.err);
    }
    // Lines of stacks have no place for the others, and the message says how many that are.
    let answer = place
        .run(&["export", "--to", "folded", "-o", "folded", "t"])
        .succeeds();
    let folded = std::fs::read_to_string(place.path().join("folded")).unwrap();
    let counts = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let stacks: usize = counts.map(|count| count.parse::<usize>().unwrap()).sum();
    assert!(0 < stacks && stacks < all, "{stacks} of {all}");
    let printed = format!("{stacks} of {all} events in folded: the others have no call stack");
    assert!(answer.err.contains(&printed), "no {printed:?} in {}", answer.err);
    let tool = |tool: &str, arguments: &[&str]| {
        let output = std::process::Command::new(tool)
            .args(arguments)
            .current_dir(place.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{tool}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    if has("perf") {
        let out = tool(
            "perf",
            &["script", "-i", "a/perf-data", "-F", "comm,event,trace,sym,ip"],
        );
        assert_eq!(
            out.matches("syscalls:sys_").count() + out.matches("sched:sched_").count(),
            all,
            "{out}"
        );
        // Its own names, of this machine's kernel and libraries.
        assert!(out.contains("do_syscall_64"), "{out}");
        let report = tool(
            "perf",
            &[
                "report",
                "-i",
                "a/perf-data",
                "--stdio",
                "-g",
                "none",
                "-s",
                "comm",
            ],
        );
        assert!(report.contains("cat"), "{report}");
    }
    if has("trace-cmd") {
        let out = tool("trace-cmd", &["report", "-i", "a/trace-dat"]);
        assert_eq!(
            out.lines()
                .filter(|line| line.contains(": sys_") || line.contains(": sched_"))
                .count(),
            all,
            "{out}"
        );
    }
    // Choices are those of print.
    let chosen = [
        "export",
        "--to",
        "chrome",
        "-o",
        "c",
        "-e",
        "sched_process_exit",
        "t",
    ];
    let exits = place
        .json_lines(&["print", "--records", "-e", "sched_process_exit", "t"])
        .len();
    place.run(&chosen).succeeds();
    let chrome = std::fs::read_to_string(place.path().join("c")).unwrap();
    assert_eq!(chrome.matches("\"ph\":\"i\"").count(), exits);
}

#[test]
fn a_failed_export_is_reported_and_leaves_no_file() {
    needs_tracing!();
    let place = WorkFolder::new();
    record(&place);
    let before = || std::fs::read_dir(place.path()).unwrap().count();
    let files = before();
    place.run(&["export", "t"]).fails(2, &["--to"]);
    place
        .run(&["export", "--to", "word", "t"])
        .fails(2, &["perf-data"]);
    place
        .run(&["export", "--to", "perf-data", "-o", "-", "t"])
        .fails(2, &["cannot go to standard output"]);
    std::fs::create_dir(place.path().join("full")).unwrap();
    std::fs::write(place.path().join("full/file"), "").unwrap();
    let files = files + 1;
    for format in ["perf-data", "trace-dat", "parquet", "pprof"] {
        place
            .run(&["export", "--to", format, "-o", "t", "t"])
            .fails(2, &["t is the input", "another name"]);
        let words = ["cannot write full", "name another place"];
        place
            .run(&["export", "--to", format, "-o", "full", "t"])
            .fails(1, &words);
    }
    place
        .run(&["export", "--to", "perf-data", "nowhere"])
        .fails(1, &["nowhere", "kestrel record"]);
    place
        .run(&["export", "--to", "perf-data", "-e", "nothing", "t"])
        .fails(2, &["no event of this trace is called `nothing`"]);
    assert_eq!(before(), files);
}

#[test]
fn an_export_without_events_is_a_file_and_no_failure() {
    needs_tracing!();
    let place = WorkFolder::new();
    let nothing = "syscalls:sys_enter_reboot";
    place
        .run(&["record", "-o", "t", "-e", nothing, "--", "true"])
        .succeeds();
    for format in ["perf-data", "trace-dat", "perfetto", "chrome", "pprof"] {
        let answer = place
            .run(&["export", "--to", format, "-o", format, "t"])
            .succeeds();
        assert!(
            answer.err.contains("kestrel: t holds no events"),
            "{}",
            answer.err
        );
        assert!(
            answer.err.contains(&format!("0 events in {format}")),
            "{}",
            answer.err
        );
        assert!(place.path().join(format).is_file(), "{format}");
    }
    record(&place);
    let chosen = ["export", "--to", "perf-data", "--comm", "nobody", "t"];
    let answer = place.run(&chosen).succeeds();
    assert!(
        answer.err.contains("none of the events in t is wanted"),
        "{}",
        answer.err
    );
}

/// perf warns of restricted names of the kernel where it does not find by which symbol they can be moved to where they lie now.
#[test]
fn perf_finds_the_begin_of_the_kernels_code() {
    needs_tracing!();
    if !has("perf") {
        return;
    }
    let place = WorkFolder::new();
    record(&place);
    place.run(&["export", "--to", "perf-data", "t"]).succeeds();
    for names in [&[][..], &["--kallsyms", "perf.data.kallsyms"]] {
        let output = std::process::Command::new("perf")
            .args(["report", "--stdio", "-i", "perf.data"])
            .args(names)
            .current_dir(place.path())
            .output()
            .unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success() && !err.contains("restricted"), "{err}");
        assert!(out.contains("do_syscall_64"), "{names:?} {out}");
    }
}
