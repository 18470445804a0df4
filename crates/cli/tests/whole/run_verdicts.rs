//! Tests and benchmarks of scripts (`kestrel run --test`, `--bench`): what passes, what is measured, what fails.

use crate::command::{WorkFolder, needs_tracing};

/// Tests run one after the other where that is asked; those pass that return 0, and in which no helper fails.
#[test]
fn tests_pass_or_fail() {
    needs_tracing!();
    let program = r#"test:fine { print("quiet"); return 0; } test:none { @a[1] = 1; print(@a[1]); } test:wrong { print("loud"); return 7; }
        test:exits { exit(); } test:fails { print(@a[5]); } test:says { errorf("no"); } begin { printf("begin\n"); }"#;
    let run = WorkFolder::new().run(&["run", "-q", "--test", "-e", program]);
    for line in [
        "[==========] Running 6 tests.\n[ RUN      ] fine\n[       OK ] fine (",
        "[       OK ] none (",
        "[ RUN      ] wrong\nloud\n[  FAILED  ] wrong (",
        "[       OK ] exits (",
        "[  FAILED  ] fails (",
        "[==========] 6 tests ran.\n[  PASSED  ] 3 tests.\n[  FAILED  ] 3 tests, listed below:\n[  FAILED  ] wrong\n[  FAILED  ] fails\n[  FAILED  ] says\n",
    ] {
        assert!(
            run.out.contains(line),
            "{line} is missing in\n{}\n{}",
            run.out,
            run.err
        );
    }
    assert!(
        !run.out.contains("quiet") && run.out.starts_with("begin\n"),
        "{}",
        run.out
    );
    assert!(!run.out.contains("@a"), "{}", run.out);
    run.fails(1, &["map_lookup_elem", "ERROR: no"]);
    let passing = ["run", "-q", "--mode", "test", "-e", "test:fine { return 0; }"];
    WorkFolder::new().run(&passing).succeeds();
    // They are nothing where tests are not asked for.
    let other = WorkFolder::new().run(&["run", "-q", "-e", "test:wrong { return 7; } begin { print(1); }"]);
    assert!(other.succeeds().out.starts_with("1\n"));
    let alone = WorkFolder::new().run(&["run", "-e", "test:fine { }"]);
    alone.fails(1, &["No probes attached; use --test to run test probes"]);
}

/// Benchmarks are a table, or lines of JSON, without maps and without what they print.
#[test]
fn benchmarks_are_measured_and_nothing_else_is_shown() {
    needs_tracing!();
    let program =
        "bench:one { @a++; print(1234567); } bench:two { @b = count(); } end { printf(\"ended\\n\"); }";
    let run = |options: &[&str]| {
        let all = [&["run", "--bench"], options, &["-e", program]].concat();
        WorkFolder::new().run(&all).succeeds().out
    };
    let table = run(&[]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("Benchmark  ") && lines[1].starts_with("-----"),
        "{table}"
    );
    assert!(
        lines[2].starts_with("one ") && lines[3].starts_with("two "),
        "{table}"
    );
    assert_eq!(lines[4..], ["ended", "", ""], "{table}");
    let json = run(&["-f", "json"]);
    let json: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(json.len(), 3, "{json:?}");
    assert!(json[0]["data"]["one"]["iters"].as_u64() > Some(0), "{json:?}");
    assert_eq!(json[2]["data"], "ended\n");
}

/// Benchmarks that fail have no row, and the exit code says so; neither `exit` nor what the others print is in the way of one.
#[test]
fn benchmarks_fail_alone() {
    needs_tracing!();
    let program = "bench:exits { exit(1); } bench:returns { return 3; } bench:known { @y = 2; return @y; } bench:says { errorf(\"no\"); }
        bench:leaves { print(1234567); exit(); } bench:later { if (@z++ > 100) { exit(); } } bench:zero { @x = 0; return @x; }";
    let run = WorkFolder::new().run(&["run", "--bench", "-e", program]);
    let rows: Vec<&str> = run.out.lines().skip(2).collect();
    let [leaves, later, zero, "", ""] = rows[..] else {
        panic!("{}", run.out)
    };
    for (row, name) in [(leaves, "leaves"), (later, "later"), (zero, "zero")] {
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((words.len(), words[0]), (3, name), "{row}");
        assert_ne!((words[1], words[2]), ("0", "0"), "{row}");
    }
    let failed = ["exits", "returns", "known", "says"].map(|name| format!("Benchmark '{name}' failed."));
    let words: Vec<&str> = failed.iter().map(String::as_str).collect();
    run.fails(1, &[&words[..], &["ERROR: no"]].concat());
}

/// Two tests of one name are refused; without tests or benchmarks no table is printed.
#[test]
fn names_are_used_once_and_nothing_is_said_of_none() {
    let twice = ["run", "-e", "begin { } test:a { } bench:a { } test:b, test:a { }"];
    let run = WorkFolder::new().run(&twice);
    run.fails(
        2,
        &[
            "\"a\" was used as the name for more than one TEST probe",
            "this is the other instance",
        ],
    );
    assert!(!run.err.contains("BENCH"), "{}", run.err);
    needs_tracing!();
    for mode in ["--test", "--bench"] {
        let run = WorkFolder::new().run(&["run", mode, "-e", "begin { print(7); }"]);
        assert_eq!(run.succeeds().out.trim_end(), "7");
    }
}
