//! Programs of bpftrace's language on kernels that have kprobes: counts are exact, output comes in order, what is missing is said.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeSet;
use vm_tests::{Run, kestrel, shell};

/// Runs a program while `calls` makes so many of one call.
fn run(program: &str, call: &str, count: &str) -> Run {
    let command = format!("calls {call} {count}");
    let run = kestrel(&["run", "-e", program, "-c", &command]);
    assert_eq!(run.code, Some(0), "{program}: {}", run.err);
    run
}

/// Functions as keys by their addresses are counted as their events are by numbers, and as often as they were called; they have their names wherever they are shown.
#[test]
fn functions_are_counted_by_their_addresses() {
    let program = r#"
        kprobe:vfs_* /comm == "dd" && arg2 == 1/ { @f[func] = count(); @p[probe] = count(); @mixed[func] = count() }
        kretprobe:vfs_* /comm == "dd"/ { @calls[func] = count() }
        kprobe:vfs_* /comm == "dd"/ { @calls[func] = count() }
        kprobe:vfs_* /comm == "dd" && arg2 == 1 && func == "vfs_write"/ { @one[func] = count(); @text = func }
        fentry:vfs_read /comm == "dd" && args.count == 1/ { @mixed[func] = count() }
        fexit:vfs_read /comm == "dd" && args.count == 1/ { @mixed[func] = count() }
        end { for ($kv : @f) { printf("loop %s %d\n", $kv.0, (int64)$kv.1) } }"#;
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=2000";
    let printed = |more: &[&str]| {
        let mut args = vec!["run"];
        args.extend_from_slice(more);
        args.extend_from_slice(&["-e", program, "-c", command]);
        let run = kestrel(&args);
        assert_eq!(run.code, Some(0), "{}", run.err);
        run.out
    };
    let out = printed(&[]);
    for line in [
        "@f[vfs_read]: 2000\n",
        "@f[vfs_write]: 2000\n",
        "@p[kprobe:vfs_read]: 2000\n",
        "@p[kprobe:vfs_write]: 2000\n",
        // Three kinds of events of one function count under one key.
        "@mixed[vfs_read]: 6000\n",
        "@mixed[vfs_write]: 2000\n",
        "@one[vfs_write]: 2000\n",
        "@text: vfs_write\n",
        "loop vfs_read 2000\n",
    ] {
        assert!(out.contains(line), "{line} is missing in\n{out}");
    }
    assert_eq!(out.matches("@mixed[vfs_read]: ").count(), 1, "{out}");
    let of = |map: &str, cut: &str| -> Vec<String> {
        let lines = out.lines().filter_map(|line| line.strip_prefix(map));
        let mut lines: Vec<String> = lines.map(|line| line.replace(cut, "")).collect();
        lines.sort();
        lines
    };
    assert_eq!(of("@f[", ""), of("@p[", "kprobe:"), "{out}");
    let names: Vec<String> = of("@calls[", "");
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("vfs_") && !name.contains('+')),
        "{out}"
    );
    assert!(printed(&["-f", "json"]).contains("\"vfs_write\": 2000"));
}

/// A handler reads an aggregation of all CPUs as often as it likes: the verifier goes through the loop over them once for each map.
#[test]
fn a_handler_reads_aggregations_twenty_times() {
    let reads = |map: &str| [map; 5].join(" + ");
    let long = r#"@long["a key of more bytes than a function is given", comm]"#;
    let program = format!(
        r#"begin {{ @most = max(5); @least = min(-5); @mean = avg(4); @sum = sum(3); @keyed["a", 1] = max(9); }}
           tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ {{
               @most = max(7); @least = min(-9); @mean = avg(8); @sum = sum(10); @keyed["a", 1] = max(3); {long} = min(6);
               printf("%d %d %d %d %d %d\n", {}, {}, {}, {}, {}, {long});
               exit()
           }}"#,
        reads("@most"),
        reads("@least"),
        reads("@mean"),
        reads("@sum"),
        reads(r#"@keyed["a", 1]"#),
    );
    let run = run(&program, "getppid", "1");
    assert!(
        run.out.contains("35 -45 30 65 45 6\n"),
        "{}\n{}",
        run.out,
        run.err
    );
}

/// A key may be what is a pointer to the verifier, which a function that takes numbers is not given.
#[test]
fn a_handler_reads_aggregations_by_pointers() {
    let program = r#"
        fentry:vfs_read /comm == "dd" && args.count == 1/ {
            @bytes[args.file] = sum(args.count); @most[(uint64)args.file, pid] = max(args.count);
            if ((int64)@bytes[args.file] == 20) { printf("twenty, %d\n", (int64)@most[(uint64)args.file, pid]) }
        }"#;
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=30";
    let run = kestrel(&["run", "-e", program, "-c", command]);
    assert_eq!(
        run.out.matches("twenty, 1\n").count(),
        1,
        "{}\n{}",
        run.out,
        run.err
    );
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

/// Maps in which nothing was stored are not shown at the end, of a run and of a recording; zeroes that were stored are.
#[test]
fn maps_never_written_are_not_printed_at_the_end() {
    let program = r#"tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ {
            @calls = count(); @zero = sum(tid * 0); @last = tid * 0; @most = max((uint64)tid * 0); @name = str((uint64)tid * 0); @both = (0, tid * 0);
        }
        tracepoint:syscalls:sys_enter_getppid /comm == "nobody"/ {
            @no_sum = sum(tid); @no_last = tid; @no_most = max(tid); @no_name = comm; @no_pair = (1, tid);
        }"#;
    let run = run(program, "getppid", "100");
    let shown: Vec<&str> = run.out.lines().filter(|line| line.starts_with('@')).collect();
    assert_eq!(
        shown,
        [
            "@both: (0, 0)",
            "@calls: 100",
            "@last: 0",
            "@most: 0",
            "@name: ",
            "@zero: 0"
        ],
        "{}",
        run.err
    );
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

/// Handlers run in source order, whatever order the kernel has for its own lists: kprobes and trampolines run the program attached last first.
#[test]
fn handlers_of_one_event_run_in_source_order() {
    for event in [
        "kprobe:__x64_sys_getppid",
        "kretprobe:__x64_sys_getppid",
        "fentry:ksys_read",
        "fexit:ksys_read",
        "tracepoint:syscalls:sys_enter_getppid",
        "rawtracepoint:sys_exit",
    ] {
        let program = format!(
            r#"{event} /comm == "calls"/ {{ $x = 1; @n++; if (@n > 1) {{ return; }} printf("a%d", $x); }}
               {event} /comm == "calls" && @n == 1/ {{ $x = "b"; printf("%s", $x); }}
               {event} /comm == "calls" && @n == 1/ {{ printf("c\n"); }}"#
        );
        let call = match event.ends_with("ksys_read") {
            true => "read",
            false => "getppid",
        };
        let run = run(&program, call, "3");
        assert!(run.err.contains("Attached 3 probes\n"), "{event}: {}", run.err);
        assert!(run.out.contains("a1bc\n"), "{event}: {}\n{}", run.out, run.err);
    }
}

/// Where the kernel can, entries and returns of the same functions are one program with one link, unless they ask for `probe`; what they see is the same as by two.
#[test]
fn entries_and_returns_of_the_same_functions_are_one_program() {
    let info = kestrel(&["run", "--info"]);
    let can = (info.out + &info.err).contains("kprobe_session: yes");
    let program = r#"
        kretprobe:ksys_r* /comm == "calls"/ { @returned[func] = count(); @long = max(retval) }
        kprobe:ksys_r* /comm == "calls"/ { @entered[func] = count(); @largest = max(arg2); @at[tid] = nsecs }
        kprobe:__x64_sys_read { @nested = count() } kretprobe:__x64_sys_read { if (@at[tid]) { delete(@at, tid) } }
        end { printf("%d left\n", len(@at)) }"#;
    let seen = |options: &[&str]| {
        let command = ["-e", program, "-c", "calls read 3000"];
        let run = kestrel(&[&["run"], options, &command].concat());
        assert_eq!(run.code, Some(0), "{}", run.err);
        let attached = run.err.lines().find_map(|line| line.strip_prefix("Attached "));
        let probes = attached.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        let of_calls = |line: &&str| line.contains("ksys_read") || line.contains("left");
        let lines: Vec<String> = run.out.lines().filter(of_calls).map(str::to_owned).collect();
        (lines, probes.unwrap(), run)
    };
    let (one, probes, run) = seen(&[]);
    // Loading the program may take a read, too.
    let count = |title: &str| {
        one.iter()
            .find_map(|line| line.strip_prefix(title)?.parse::<u64>().ok())
    };
    let entered = count("@entered[ksys_read]: ");
    assert!(
        entered.is_some_and(|calls| calls >= 3000),
        "{}\n{}",
        run.out,
        run.err
    );
    assert_eq!(entered, count("@returned[ksys_read]: "), "{}", run.out);
    assert!(one.contains(&"0 left".to_owned()), "{}", run.out);
    let (two, apart, _) = seen(&["--no-feature", "kprobe_session"]);
    assert_eq!(one, two);
    // The end of the program is no probe of a function.
    let expected = if can { 2 * (probes - 1) + 1 } else { probes };
    assert_eq!(apart, expected, "{}", run.err);
}

/// `-p` keeps what other processes do out of probes of the kernel, and clocks of the program go on.
#[test]
fn a_process_that_is_named_is_the_only_one() {
    let program = r#"kprobe:__x64_sys_getppid { @pids[pid] = count(); } tracepoint:syscalls:sys_enter_getppid { @pids[pid] = count(); }
        interval:ms:100 { @ticks++; if (@ticks == 8) { exit(); } }"#;
    let script = format!(
        "(while :; do calls getppid 100; done) & noise=$!; calls getppid 40000000 & one=$!; kestrel run -e '{program}' -p $one; kill $noise $one; echo one: $one"
    );
    let run = shell(&script);
    let one = run
        .out
        .lines()
        .find_map(|line| line.strip_prefix("one: "))
        .unwrap();
    let counted: Vec<&str> = run
        .out
        .lines()
        .filter(|line| line.starts_with("@pids["))
        .collect();
    assert_eq!(counted.len(), 1, "{}\n{}", run.out, run.err);
    assert!(counted[0].starts_with(&format!("@pids[{one}]: ")), "{}", run.out);
    assert!(run.out.contains("@ticks: 8\n"), "{}", run.out);
}

#[test]
fn path_socket_and_percpu_helpers_answer_as_the_kernel_does() {
    let path = r#"fentry:security_file_open /comm == "cat"/ { $p = path(args.file.f_path); if ($p == "/etc/passwd") { printf("open %s %s\n", $p, path(args.file.f_path, 64)); exit(); } }"#;
    let opened = kestrel(&["run", "-e", path, "-c", "cat /etc/passwd"]);
    assert!(
        opened.out.contains("open /etc/passwd /etc/passwd\n"),
        "{}\n{}",
        opened.out,
        opened.err
    );
    let files = r#"iter:task_file /comm == "kestrel"/ { @files[path(ctx.file.f_path)] = count(); }"#;
    let files = kestrel(&["run", "-e", files]);
    assert!(files.out.contains("@files["), "{}\n{}", files.out, files.err);
    let cpus = r#"begin { $own = percpu_kaddr("process_counts", cpu); printf("%d %d\n", *$own == *percpu_kaddr("process_counts"), percpu_kaddr("process_counts", 4000) == 0); }"#;
    let cpus = kestrel(&["run", "-e", cpus]);
    assert!(cpus.out.contains("1 1\n"), "{}\n{}", cpus.out, cpus.err);
}

/// A pinned iterator walks when its file is read, also after the command that made it has ended.
#[test]
fn pinned_iterators_outlive_their_command() {
    let program = r#"begin { printf("begun\n"); } iter:task:walked { @[ctx.task.comm] = count(); printf("%s:%d %c\n", ctx.task.comm, ctx.task.pid, 65); print(7); }"#;
    let printed = "Program pinned to /sys/fs/bpf/walked\n";
    let tried = kestrel(&["run", "--dry-run", "-e", program]);
    assert_eq!(tried.code, Some(0), "{}", tried.err);
    let made = kestrel(&["run", "-e", program]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(made.out.starts_with(&format!("{printed}begun\n")), "{}", made.out);
    for _ in 0..2 {
        let walked = shell("cat /sys/fs/bpf/walked");
        assert!(
            walked.out.lines().any(|line| line == "kthreadd:2 A"),
            "{}\n{}",
            walked.out,
            walked.err
        );
        assert_eq!(
            walked.out.lines().filter(|line| *line == "7").count() * 2,
            walked.out.lines().count()
        );
    }
    let again = kestrel(&["run", "-e", program]);
    assert_eq!(again.code, Some(1), "{}", again.err);
    assert!(again.err.contains("/sys/fs/bpf/walked"), "{}", again.err);
    let gone = shell("rm /sys/fs/bpf/walked; ls /sys/fs/bpf/walked");
    assert_ne!(gone.code, Some(0), "{}", gone.out);
    let refused = kestrel(&["run", "-e", "iter:task:x { printf(\"%s\", kstack) }"]);
    assert!(refused.err.contains("cannot write"), "{}", refused.err);
}

#[test]
fn functions_that_change_the_system_need_unsafe() {
    for (program, with) in [
        (r#"kprobe:__x64_sys_getppid { override(7); }"#, "override()"),
        (r#"kprobe:__x64_sys_getppid { signal("KILL"); }"#, "signal()"),
        (
            r#"kprobe:__x64_sys_openat { write_user(arg0, "x", 1); }"#,
            "write_user()",
        ),
    ] {
        let refused = kestrel(&["run", "-e", program]);
        assert_ne!(refused.code, Some(0));
        let why = format!("{with} is an unsafe function being used in safe mode");
        assert!(refused.err.contains(&why), "{}", refused.err);
    }
    let written = r#"tracepoint:syscalls:sys_enter_openat /comm == "cat" && str(args.filename) == "/etc/passwd"/ { @w[write_user(args.filename, "/etc/nothing", 13)] = count(); }"#;
    let run = kestrel(&["run", "--unsafe", "-e", written, "-c", "cat /etc/passwd"]);
    assert!(run.out.contains("@w[true]: 1\n"), "{}\n{}", run.out, run.err);
}

#[test]
fn limits_of_probes_are_obeyed() {
    let limited = |events: &str| {
        let program = format!("config = {{ max_probes = 5 }} {events} {{ @ = count(); }}");
        kestrel(&["run", "-e", &program, "-c", "cat /etc/passwd"])
    };
    let refused = limited("fentry:vfs_*");
    assert_ne!(refused.code, Some(0));
    let why = "exceeds the current limit of 5 probes";
    assert!(refused.err.contains(why), "{}", refused.err);
    // The kernel attaches a program to all these functions by one link.
    let one = limited("kprobe:vfs_*").success();
    assert!(one.contains("@: "), "{one}");
    let pattern = kestrel(&[
        "run",
        "-e",
        "kprobe:vmlin*:vfs_rea* { @[probe] = count(); }",
        "-c",
        "cat /etc/passwd",
    ]);
    assert!(
        pattern.out.contains("@[kprobe:vfs_read]: "),
        "{}\n{}",
        pattern.out,
        pattern.err
    );
}

/// `args` where a function returns has what it returned; an offset behind a pattern is one in each function that has an instruction there.
#[test]
fn returned_values_and_offsets_of_patterns_are_as_in_bpftrace() {
    let last_line = |program: &str| {
        let run = kestrel(&[
            "run",
            "-q",
            "-e",
            program,
            "-c",
            "dd if=/dev/zero of=/dev/null bs=7 count=9",
        ]);
        let lines: Vec<&str> = run.out.lines().filter(|line| !line.is_empty()).collect();
        lines
            .last()
            .unwrap_or_else(|| panic!("{program}: {}", run.err))
            .to_string()
    };
    for all in ["args", "*args"] {
        let read = format!("fexit:vfs_read /comm == \"dd\" && args.count == 7/ {{ print({all}); exit(); }}");
        let printed = last_line(&read);
        assert!(
            printed.contains(", .count = 7, ") && printed.ends_with(", .$retval = 7 }"),
            "{printed}"
        );
        let entry = last_line(&read.replace("fexit", "fentry"));
        assert!(
            entry.contains(", .count = 7, ") && !entry.contains("retval"),
            "{entry}"
        );
    }
    // At its beginning each function has an instruction.
    let program = "kprobe:vfs_rea*+0 /comm == \"dd\" && arg2 == 7/ { @[probe] = count(); }";
    assert_eq!(last_line(program), "@[kprobe:vfs_read]: 9");
}

/// Texts longer than a record are printed whole, and kept as keys and values.
#[test]
fn texts_longer_than_a_record_are_whole() {
    let program = r#"config = { max_strlen = 9999 } tracepoint:syscalls:sys_enter_openat /comm == "cat"/ { $path = str(args.filename);
        if (strncmp($path, "/XXX", 4) == 0) { printf("%d %s|\n", strlen($path), $path); @paths[$path] = (1, $path); for ($kv : @paths) { print($kv.1.1) } clear(@paths) } }"#;
    let path = format!("/{}", "X".repeat(5000));
    std::fs::write("/tmp/long.sh", format!("cat {path}\n")).unwrap();
    let run = kestrel(&["run", "-e", program, "-c", "sh /tmp/long.sh"]);
    let wanted = format!("5001 {path}|\n{path}\n");
    assert!(run.out.contains(&wanted), "{}\n{}", run.out, run.err);
}

/// A program's function is traced by its name, which other tools see, too.
#[test]
fn functions_of_programs_are_traced() {
    let script = r#"kestrel run -e 'interval:100ms { @a = 1 } interval:100ms { @b = 2 }' >/dev/null & sleep 3
        kestrel run -l 'fentry:bpf:*:interval_us_*'
        kestrel run -e 'fentry:bpf:interval_us_100000_1 { print(probe); exit() }'
        kestrel run -e 'fexit:bpf:*:interval_us_*_2 { print(probe); exit() }'
        kestrel run -e 'fentry:bpf:no_such_function { exit() }' 2>&1
        kill -INT $!"#;
    let run = shell(script);
    let lines = |wanted: &str| run.out.lines().filter(|line| line.contains(wanted)).count();
    assert_eq!(lines("interval_us_100000_1"), 2, "{}\n{}", run.out, run.err);
    assert_eq!(lines("interval_us_100000_2"), 2, "{}\n{}", run.out, run.err);
    assert_eq!(lines("fexit:bpf:"), 1, "{}\n{}", run.out, run.err);
    assert_eq!(
        lines("no function of a loaded BPF program with types"),
        1,
        "{}",
        run.out
    );
}

/// The frames of each stack that a program's map has for keys.
fn stacks_in(output: &str) -> BTreeSet<Vec<String>> {
    let mut all = BTreeSet::new();
    let mut frames: Option<Vec<String>> = None;
    for line in output.lines() {
        match (line, frames.as_mut()) {
            ("@[", _) => frames = Some(Vec::new()),
            (end, _) if end.starts_with("]:") => all.extend(frames.take()),
            (frame, Some(frames)) => frames.push(frame.trim().to_owned()),
            _ => {}
        }
    }
    all
}

/// Where more than one program is attached, and on some kernels always, functions that only call programs stand in the stack.
#[test]
fn stacks_are_the_same_alone_beside_others_and_recorded() {
    const TRACE: &str = "/tmp/stacks.trace";
    let program = "tracepoint:syscalls:sys_enter_getppid /comm == \"calls\"/ { @[kstack] = count() }";
    let others = ["read", "close", "mmap"]
        .map(|call| format!("tracepoint:syscalls:sys_enter_{call} {{ @n = count() }}"));
    let live = |text: &str| stacks_in(&kestrel(&["run", "-e", text, "-c", "calls getppid 50"]).success());
    let alone = live(program);
    assert_eq!(alone.len(), 1, "{alone:?}");
    let calls_programs =
        |frame: &String| frame.starts_with("__traceiter_") || frame.starts_with("__bpf_trace_");
    assert!(!alone.iter().flatten().any(calls_programs), "{alone:?}");
    assert_eq!(live(&format!("{program} {}", others.join(" "))), alone);
    let mut record = vec![
        "record",
        "-o",
        TRACE,
        "-e",
        "syscalls:sys_enter_getppid { record(args, kstack) }",
    ];
    record.extend([
        "-e",
        "syscalls:sys_enter_read,syscalls:sys_enter_close",
        "--",
        "calls",
        "getppid",
        "50",
    ]);
    kestrel(&record).success();
    assert_eq!(
        stacks_in(&kestrel(&["run", "-e", program, "--trace", TRACE]).success()),
        alone
    );
}

/// Tracepoints of a class (`DECLARE_EVENT_CLASS`) share a function that calls their programs and bears the class's name: some kernels have it in the stack.
#[test]
fn stacks_of_a_class_of_tracepoints_begin_at_the_tracepoint() {
    let program = "tracepoint:sched:sched_process_exit { @[kstack(3)] = count() } tracepoint:sched:sched_waking { @[kstack(3)] = count() }";
    let run = kestrel(&["run", "-e", program, "-c", "cat /proc/version"]).success();
    let stacks = stacks_in(&run);
    let innermost: BTreeSet<&str> = stacks
        .iter()
        .filter_map(|stack| stack.first())
        .map(|frame| frame.split('+').next().unwrap_or_default())
        .collect();
    assert!(
        innermost.contains("do_exit") && innermost.contains("try_to_wake_up"),
        "{stacks:?}"
    );
    assert!(
        !innermost.iter().any(|frame| frame.starts_with("__")),
        "{stacks:?}"
    );
}

/// Handlers of a function run in source order, also where lists and patterns overlap without being the same, whatever order the kernel runs its programs in.
#[test]
fn overlapping_probes_keep_their_source_order() {
    for kind in ["kprobe", "kretprobe", "fentry", "fexit"] {
        let calls = "/comm == \"calls\"/";
        let program = format!(
            r#"{kind}:ksys_read {calls} {{ @x = 1 }}
            {kind}:ksys_*,{kind}:vfs_read {calls} {{ @x = @x * 10 + 2; @n[probe] = count() }}
            {kind}:ksys_read {calls} {{ @x = @x * 10 + 3; @seen[@x] = count() }}"#
        );
        let run = run(&program, "read", "500");
        let seen: Vec<&str> = run.out.lines().filter(|line| line.starts_with("@seen")).collect();
        // Loading the program may take a read, too.
        let [only] = seen.as_slice() else {
            panic!("{kind}: {}\n{}", run.out, run.err);
        };
        let count = only
            .strip_prefix("@seen[123]: ")
            .and_then(|count| count.parse().ok());
        assert!(count >= Some(500), "{kind}: {}", run.out);
    }
}
