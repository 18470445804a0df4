//! Programs of bpftrace's language on kernels that have kprobes: counts are exact, output comes in order, what is missing is said.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use vm_tests::{Run, kestrel};

/// Runs a program while `calls` makes so many of one call.
fn run(program: &str, call: &str, count: &str) -> Run {
    let command = format!("calls {call} {count}");
    let run = kestrel(&["run", "-e", program, "-c", &command]);
    assert_eq!(run.code, Some(0), "{program}: {}", run.err);
    run
}

/// Functions, their returns and the tracepoint of the same call agree with each other and with what was done.
#[test]
fn probes_of_all_kinds_count_the_same_calls() {
    let program = r#"
        kprobe:__x64_sys_getppid /comm == "calls"/ { @entries = count() }
        kretprobe:__x64_sys_getppid /comm == "calls"/ { @returns = count(); @parent[retval == ppid] = count() }
        tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ { @tracepoint++ }
        rawtracepoint:sys_enter /comm == "calls" && args.id == 110/ { @raw[args.id] = count() }
        begin { printf("begin\n") } end { printf("end\n") }"#;
    let run = run(program, "getppid", "5000");
    for line in [
        "@entries: 5000\n",
        "@returns: 5000\n",
        "@tracepoint: 5000\n",
        "@raw[110]: 5000\n",
    ] {
        assert!(
            run.out.contains(line),
            "{line} is missing in\n{}\n{}",
            run.out,
            run.err
        );
    }
    let places = ["begin\n", "end\n", "@entries"].map(|word| run.out.find(word).unwrap());
    assert!(places.is_sorted(), "{}", run.out);
}

/// Maps that are printed and cleared while events come show each call once.
#[test]
fn intervals_neither_lose_nor_double_a_count() {
    let program = r#"tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ { @c = count(); @by[cpu] = count() }
        interval:ms:50 { print(@c); clear(@c); print(@by); clear(@by) }"#;
    let run = run(program, "getppid", "20000");
    let sum = |title: &str| -> u64 {
        let counts = run.out.lines().filter_map(|line| line.strip_prefix(title));
        counts
            .map(|count| count.rsplit(": ").next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    assert_eq!((sum("@c"), sum("@by[")), (20_000, 20_000), "{}", run.out);
}

#[test]
fn a_probe_that_is_missing_is_refused_skipped_or_ignored() {
    let missing = |policy: &str| {
        let program = format!(
            "{policy} begin {{ printf(\"ran\\n\") }} kprobe:no_such_function,tracepoint:no:such {{ }}"
        );
        kestrel(&["run", "-e", &program])
    };
    let refused = missing("");
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.err.contains("No matches for kprobe no_such_function."),
        "{}",
        refused.err
    );
    let warned = missing("config = { missing_probes = warn }");
    assert_eq!(
        (warned.code, warned.out.contains("ran\n")),
        (Some(0), true),
        "{}",
        warned.err
    );
    assert!(
        warned
            .err
            .contains("No matches for tracepoint no:such. Skipping."),
        "{}",
        warned.err
    );
    let ignored = missing("config = { missing_probes = ignore }");
    assert_eq!(
        (ignored.code, ignored.err.contains("No matches")),
        (Some(0), false),
        "{}",
        ignored.err
    );
}
