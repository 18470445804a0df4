//! Options of `kestrel run` and how programs end, live and over recordings.

use crate::command::{Answer, WorkFolder, needs_tracing};
use std::os::unix::ffi::OsStrExt;

/// A program run live, then over a recording in which its event is.
fn both_ways(place: &WorkFolder, options: &[&str], program: &str) -> [Answer; 2] {
    if !place.path().join("t").exists() {
        let record = ["record", "-o", "t", "-e", "syscalls:sys_enter_openat"];
        let command = ["--", "sh", "-c", "cat /proc/version"];
        place.run(&[&record[..], &command].concat()).succeeds();
    }
    let run = ["run", "-q", "-e", program];
    let live = ["-c", "cat /proc/version"];
    [
        place.run(&[&run[..], options, &live].concat()),
        place.run(&[&run[..], options, &["--trace", "t"]].concat()),
    ]
}

/// The search for the program along `PATH` is not the command's.
#[test]
fn a_command_has_one_exec() {
    needs_tracing!();
    let place = WorkFolder::new();
    let path = format!("/nowhere:{}:/none:/usr/bin:/bin", place.path().display());
    std::fs::write(place.path().join("true"), "not executable").unwrap();
    let run = |words: &[&str]| {
        let mut command = place.command(words);
        Answer::from(command.env("PATH", &path).output().unwrap()).succeeds()
    };
    let count = "syscalls:sys_enter_execve /pid == cpid/ { @ = count() }";
    let counted = run(&["run", "-q", "-e", count, "-c", "true"]).out;
    assert_eq!(counted.trim(), "@: 1", "{counted}");
    let shown = run(&["trace", "--syscalls=execve", "--no-exits", "--", "true"]).out;
    assert!(shown.contains("argv: [\"true\"]"), "{shown}");
}

/// The last word about the exit code is that of `end`; between events, it is the first.
#[test]
fn an_exit_in_end_gives_the_code() {
    needs_tracing!();
    let place = WorkFolder::new();
    let open = "syscalls:sys_enter_openat";
    for (end, code) in [("exit(5);", 5), ("exit();", 0), ("", 3)] {
        let program =
            format!("{open} {{ exit(3); }} end {{ printf(\"end\\n\"); {end} printf(\"behind\\n\"); }}");
        for run in both_ways(&place, &[], &program) {
            assert_eq!(run.code, Some(code), "{program}: {}{}", run.out, run.err);
            assert!(run.out.contains("end\n"), "{}", run.out);
            assert_eq!(run.out.contains("behind"), end.is_empty(), "{}", run.out);
        }
    }
    let two = format!("{open} {{ exit(3); }} {open} {{ exit(4); }}");
    for run in both_ways(&place, &[], &two) {
        assert_eq!(run.code, Some(3), "{}", run.err);
    }
    // Without an exit before it.
    for run in both_ways(&place, &[], "end { exit(6); }") {
        assert_eq!(run.code, Some(6), "{}", run.err);
    }
}

/// Warnings of programs are warnings; errors of programs are none.
#[test]
fn no_warnings_silences_warnings_of_programs() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = r#"syscalls:sys_enter_openat { warnf("odd %d", 17); errorf("bad %d", 18); printf("said\n"); exit(); }"#;
    for run in both_ways(&place, &[], program) {
        let all = format!("{}{}", run.out, run.err);
        assert!(all.contains("odd 17") && all.contains("bad 18"), "{all}");
    }
    for run in both_ways(&place, &["--no-warnings"], program) {
        let all = format!("{}{}", run.out, run.err);
        assert!(!all.contains("odd"), "{all}");
        assert!(all.contains("bad 18") && run.out.contains("said\n"), "{all}");
    }
}

/// Options accepted for the sake of old command lines change nothing, and the last of several programs is run.
#[test]
fn the_last_program_is_run() {
    needs_tracing!();
    let place = WorkFolder::new();
    let [one, two] = [
        "begin { printf(\"one\\n\"); exit(); }",
        "begin { printf(\"two\\n\"); exit(); }",
    ];
    let run = place.run(&["run", "-q", "--btf", "-e", one]).succeeds();
    assert_eq!(run.out.trim_end(), "one");
    let run = place.run(&["run", "-q", "-e", one, "-e", two]).succeeds();
    assert_eq!(run.out.trim_end(), "two");
    // A program that is not run is not read either.
    let run = place
        .run(&["run", "-q", "-e", "no program {", "-e", two])
        .succeeds();
    assert_eq!(run.out.trim_end(), "two");
}

/// Events that are not there are left out without a word, and with `-v` with one.
#[test]
fn verbose_names_ignored_probes() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "config = { missing_probes = ignore } tracepoint:sched:never { @ = count(); } begin { printf(\"ran\\n\"); exit(); }";
    let quiet = place.run(&["run", "-e", program]).succeeds();
    assert!(
        quiet.out.starts_with("ran\n") && !quiet.err.contains("never"),
        "{}",
        quiet.err
    );
    let verbose = place.run(&["run", "-v", "-e", program]).succeeds();
    assert!(
        verbose.out.contains("ran\n")
            && verbose.err.contains("warning: ")
            && verbose.err.contains("sched:never"),
        "{}",
        verbose.err
    );
}

/// `-- --help` prints a program's options, or that it has none, and runs nothing.
#[test]
fn programs_print_their_options() {
    let place = WorkFolder::new();
    let with =
        r#"begin { printf("ran\n"); print(getopt("size", 3, "how much")); print(getopt("plain")); exit(); }"#;
    let run = place.run(&["run", "-e", with, "--", "--help"]);
    run.fails(2, &["--size: how much", "--plain"]);
    assert_eq!(run.out, "");
    let run = place.run(&[
        "run",
        "-e",
        "begin { printf(\"ran\\n\"); exit(); }",
        "--",
        "--help",
    ]);
    run.fails(2, &["this program has no options"]);
    assert_eq!(run.out, "");
    let run = place.run(&["run", "-e", "begin { exit(); }", "--", "--size=3"]);
    run.fails(2, &["--size", "this program has no options"]);
    let with = "begin { print((getopt(\"aa\", 10), getopt(\"flag\", true))); exit(); }";
    let all = ["run", "-e", with, "--", "--aa=1", "--bb=2", "--cc"];
    place
        .run(&all)
        .fails(2, &["unexpected program command line options: --bb, --cc"]);
    for (option, words) in [
        ("--aa=1.5", "--aa invalid trailing bytes (value: 1.5)"),
        ("--aa=-5x", "--aa invalid trailing bytes (value: -5x)"),
        ("--aa=x", "--aa invalid integer (value: x)"),
        ("--flag=7", "--flag expects a boolean (e.g. 'true') (value: 7)"),
    ] {
        place.run(&["run", "-e", with, "--", option]).fails(2, &[words]);
    }
}

#[test]
fn options_may_be_on_or_off() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "begin { print(getopt(\"flag\", true)); exit(); }";
    for (option, value) in [
        ("--flag=no", "false"),
        ("--flag=OFF", "false"),
        ("--flag=yes", "true"),
        ("--flag=on", "true"),
    ] {
        let run = place.run(&["run", "-q", "-e", program, "--", option]);
        assert_eq!(run.succeeds().out.trim_end(), value, "{option}");
    }
}

/// `--` stands between parameters and is none.
#[test]
fn parameters_stand_on_both_sides_of_the_dashes() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "begin { print(($1, $2, $#)); exit(); }";
    for parameters in [["p1", "--", "20"], ["--", "p1", "20"]] {
        let run = [&["run", "-q", "-e", program][..], &parameters].concat();
        assert_eq!(place.run(&run).succeeds().out.trim_end(), "(p1, 20, 2)");
    }
}

/// Parameters may be times; what is beyond the end of one is empty.
#[test]
fn parameters_may_be_times() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "begin { print(($1, $2, getopt(\"aa\", 1), str($1), str($1 + 4))); exit(); }";
    let run = place.run(&["run", "-q", "-e", program, "5s", "--", "2ms", "--aa=3us"]);
    let run = run.succeeds();
    assert_eq!(run.out.trim_end(), "(5000000000, 2000000, 3000, 5s, )");
    assert!(run.err.contains("$1 has fewer than 4 bytes"), "{}", run.err);
}

/// `--include` takes paths from where it runs, as they are, beside those of `-I`.
#[test]
fn files_are_included_by_their_path() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::create_dir(place.path().join("inc")).unwrap();
    std::fs::write(place.path().join("inc/x.h"), "#define HERE 42\n").unwrap();
    let absolute = place.path().join("inc/x.h").display().to_string();
    let program = "begin { print(HERE); exit(); }";
    for path in ["inc/x.h", "./inc/x.h", absolute.as_str()] {
        let run = place.run(&["run", "-q", "--include", path, "-e", program]);
        assert_eq!(run.succeeds().out.trim_end(), "42", "{path}");
    }
    let within = format!("#include <{absolute}>\n{program}");
    let run = place.run(&["run", "-q", "-e", &within]).succeeds();
    assert_eq!(run.out.trim_end(), "42");
    let run = place.run(&["run", "-q", "--include", "/no/x.h", "-e", program]);
    run.fails(2, &["'/no/x.h' file not found"]);
}

/// `SIGUSR1` ends no program, not one without handlers for it either.
#[test]
fn a_user_signal_ends_nothing() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::write(place.path().join("signal.sh"), "kill -USR1 $PPID; sleep 0.2\n").unwrap();
    for (handler, printed) in [
        ("", "end"),
        ("self:signal:SIGUSR1 { printf(\"came\\n\"); }", "came\nend"),
    ] {
        let program = format!("{handler} end {{ printf(\"end\\n\"); }}");
        let run = place.run(&["run", "-q", "-c", "sh signal.sh", "-e", &program]);
        assert_eq!(run.succeeds().out.trim_end(), printed, "{handler}");
    }
}

/// Under bpftrace's name a command and a process are not watched together.
#[test]
fn bpftrace_takes_a_command_or_a_process() {
    let place = WorkFolder::new();
    let link = place.path().join("bpftrace");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kestrel"), &link).unwrap();
    let run = |words: &[&str]| Answer::from(std::process::Command::new(&link).args(words).output().unwrap());
    let program = "begin { exit(); }";
    run(&["-c", "true", "-p", "1", "-e", program]).fails(1, &["ERROR: USAGE: Cannot use both -c and -p."]);
    let listed = run(&["--list", "interval:*"]).succeeds();
    assert!(listed.out.contains("interval:ms:"), "{}", listed.out);
}

/// bpftrace's modes that run nothing: a program in the standard layout, and one that is compiled alone.
#[test]
fn modes_format_and_compile_a_program() {
    let place = WorkFolder::new();
    let program = "begin{print(1);}";
    let formatted = place.run(&["run", "--mode", "format", "-e", program]).succeeds();
    assert_eq!(formatted.out, "begin\n{\n  print(1);\n}\n");
    needs_tracing!();
    for program in [program, "test:a { print(1); }"] {
        let compiled = place.run(&["run", "--mode", "codegen", "-e", program]).succeeds();
        assert_eq!((compiled.out.as_str(), compiled.err.as_str()), ("", ""));
    }
    place
        .run(&["run", "--mode", "codegen", "-e", "begin { print(x); }"])
        .fails(2, &["Unknown identifier: 'x'"]);
}

/// A program lists what it attaches to: no events of its own, periods and counts left to the user, each line once.
#[test]
fn a_programs_events_are_listed_as_patterns_list_them() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "config = { missing_probes = warn } begin { } end { } self:signal:SIGUSR1 { } interval:s:1 { } interval:s:2 { } profile:hz:99 { } \
        software:cs:100 { } tracepoint:sched:sched_wakeup* { } uprobe:/bin/sh:nosuchfn { }";
    let run = place.run(&["run", "-l", "-e", program]).succeeds();
    let listed = "interval:s:\nprofile:hz:\nsoftware:cs:\ntracepoint:sched:sched_wakeup\ntracepoint:sched:sched_wakeup_new\n";
    assert_eq!(run.out, listed, "{}", run.err);
    assert!(run.err.contains("nosuchfn"), "{}", run.err);
    let exec = place
        .run(&["run", "-lv", "tracepoint:sched:sched_process_exec"])
        .succeeds();
    assert!(
        exec.out.contains("\n    __data_loc char[] filename\n"),
        "{}",
        exec.out
    );
    let types = place
        .run(&["run", "-l", "enum pid_type,struct path,interval:m*"])
        .succeeds();
    assert_eq!(types.out, "enum pid_type\nstruct path\ninterval:ms:\n");
    assert_eq!(place.run(&["run", "-l", "struct nosuch"]).code, Some(1));
    let clocks = place.run(&["run", "-l", "software:cpu*"]).succeeds();
    assert_eq!(
        clocks.out,
        "software:cpu-clock:\nsoftware:cpu-migrations:\nsoftware:cpu:\n"
    );
}

/// Under the name bpftrace the exit codes are bpftrace's, and `-v` says what is attached.
#[test]
fn the_name_bpftrace_has_its_codes_and_words() {
    needs_tracing!();
    let place = WorkFolder::new();
    let name = place.path().join("bpftrace");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kestrel"), &name).unwrap();
    let run = |words: &[&str], variable: (&str, &str)| {
        let mut command = std::process::Command::new(&name);
        Answer::from(command.args(words).env(variable.0, variable.1).output().unwrap())
    };
    let none = ("BPFTRACE_NOSUCH", "1");
    for (program, variable, code) in [
        ("begin { exit() }", ("BPFTRACE_MAX_MAP_KEYS", "abc"), 2),
        ("struct A { nosuch x; }; begin { exit() }", none, 2),
        ("#include <nosuch.h>\nbegin { exit() }", none, 2),
        ("begin { nosuch() }", none, 1),
        ("tracepoint:no:such { }", none, 1),
        (
            "config = { max_map_keys = 999999999 } begin { @a[1] = 1; exit() }",
            none,
            255,
        ),
        ("uprobe:/proc/self/exe:main+2000000 { }", none, 255),
        ("uprobe:/proc/self/exe:0xffffffffff { }", none, 255),
        ("uprobe:/proc/self/exe:no_such_function { }", none, 1),
        ("software:cs:0 { exit() }", none, 0),
        ("hardware:cycles:-1 { exit() }", none, 1),
        ("begin { exit(7) }", none, 7),
    ] {
        let answer = run(&["-e", program], variable);
        assert_eq!(answer.code, Some(code), "{program}: {}", answer.err);
    }
    let printed = run(
        &[
            "-v",
            "-c",
            "false",
            "-c",
            "true",
            "-e",
            "begin { } interval:s:9 { }",
        ],
        none,
    );
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    for line in [
        "Attaching 'begin' probe\n",
        "Trying to attach probe: interval:s:9\n",
        "Attached 2 probes\n",
        "Child exited with code: 0\n",
    ] {
        assert!(printed.err.contains(line), "{line}: {}", printed.err);
    }
    let dry = run(&["--dry-run", "-e", "begin { }"], none);
    assert_eq!((dry.code, dry.err.as_str()), (Some(0), ""));
    assert!(!printed.err.contains("program:"), "{}", printed.err);
    assert_eq!(run(&["-l", "struct nosuch"], none).code, Some(0));
    assert_eq!(run(&["-c", "", "-e", "begin { }"], none).code, Some(1));
}

/// Patterns may name the module before the function.
#[test]
fn events_of_a_module_are_listed() {
    needs_tracing!();
    let listed = |pattern: &str| WorkFolder::new().run(&["run", "-l", pattern]).succeeds().out;
    let of_kernel = "rawtracepoint:vmlinux:sys_enter\nrawtracepoint:vmlinux:sys_exit\n";
    assert_eq!(listed("rawtracepoint:vmlinux:sys_e*"), of_kernel);
    assert_eq!(listed("rawtracepoint:vml*:sys_e*"), of_kernel);
    assert_eq!(listed("rawtracepoint:nomod:sys_e*"), "");
}

/// Comments and strings may be of any encoding, and a mark before UTF-8 is no part of a script; elsewhere such bytes are named.
#[test]
fn scripts_of_other_encodings_are_read() {
    let place = WorkFolder::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).unwrap();
    write("odd.bt", b"begin { @b\xe9ta = 1 }");
    place
        .run(&["run", "odd.bt"])
        .fails(2, &["the byte 0xe9, which is not UTF-8, means nothing here"]);
    write("tidy.bt", b"begin { print(\"\xe9\") }   // \xe9t\xe9\n");
    let tidy = place.command(&["run", "--fmt", "tidy.bt"]).output().unwrap();
    let wanted = b"\"\xe9\"";
    assert!(tidy.stdout.windows(3).any(|bytes| bytes == wanted), "{tidy:?}");
    assert!(
        tidy.stdout.windows(6).any(|bytes| bytes == b"// \xe9t\xe9"),
        "{tidy:?}"
    );
    needs_tracing!();
    write("library.bt", b"\xef\xbb\xbfmacro seven() { 7 } // \xfcber\n");
    write(
        "marked.bt",
        b"\xef\xbb\xbfimport \"library.bt\"; begin { /* caf\xe9 */ printf(\"<\xe9\\xe8 %d>\\n\", seven()); }\r\n",
    );
    let out = place.command(&["run", "-q", "marked.bt"]).output().unwrap();
    assert!(out.stdout.starts_with(b"<\xe9\xe8 7>\n"), "{out:?}");
    let mut typed = place.command(&["run", "-q", "-e"]);
    typed.arg(std::ffi::OsStr::from_bytes(b"begin { printf(\"<\xe9>\\n\"); }"));
    let out = typed.output().unwrap();
    assert!(out.stdout.starts_with(b"<\xe9>\n"), "{out:?}");
}

/// The first failure of a place stands where it happened, its repetitions behind: in JSON, and in text where both outputs go to one file.
#[test]
fn failures_stand_among_the_output() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "begin { $i = 0; while ($i < 4) { print($i); print(@a[$i]); $i++; } @a[9] = 1; exit(); } end { print(8 / @z); @z = 0; }";
    let json = place.run(&["run", "-k", "-f", "json", "-e", program]).succeeds();
    let lines: Vec<serde_json::Value> = json
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let (value, failed) = ("value", "helper_error");
    let mut wanted = vec!["attached_probes", value, failed];
    wanted.extend([value; 7]);
    wanted.extend([failed, "runtime_error", value, "map", "map"]);
    assert_eq!(kinds, wanted, "{}", json.out);
    let failures: Vec<_> = lines.iter().filter(|line| line["type"] == failed).collect();
    assert_eq!(
        (&failures[0]["times"], &failures[1]["times"]),
        (&serde_json::Value::Null, &3.into())
    );
    let both = std::fs::File::create(place.path().join("both")).unwrap();
    let mut command = place.command(&["run", "-q", "-k", "-e", program]);
    command.stdout(both.try_clone().unwrap()).stderr(both);
    assert!(command.status().unwrap().success());
    let both = std::fs::read_to_string(place.path().join("both")).unwrap();
    let at = |text: &str| both.find(text).unwrap_or_else(|| panic!("{text}: {both}"));
    let places = [
        at("\n0\n"),
        at("Can't lookup map element"),
        at("\n1\n"),
        at("retcode: 0, 3 more times"),
        at("Divide or modulo by 0"),
        both.rfind("\n1\n").unwrap_or_else(|| panic!("{both}")),
    ];
    assert!(places.is_sorted(), "{both}");
}

/// Lists have every name of a function of a program, and of the kernel's functions those that the user's list has.
#[test]
fn lists_have_all_names_that_may_be_probed() {
    let place = WorkFolder::new();
    let out = place.run(&["run", "-l", "uprobe:libc:open*"]).succeeds().out;
    for name in ["open", "open64"] {
        let is_it = |line: &str| line.ends_with(&format!(":{name}"));
        assert!(out.lines().any(is_it), "{out}");
    }
    let kernel = place.run(&["run", "-l", "kprobe:vfs_r*"]).succeeds().out;
    std::fs::write(place.path().join("functions"), "vfs_read\nvirtio_x [virtio]\n").unwrap();
    let listed = ["run", "--traceable-functions", "functions", "-l", "kprobe:vfs_r*"];
    let expected = if kernel.is_empty() {
        ""
    } else {
        "kprobe:vfs_read\n"
    };
    assert_eq!(place.run(&listed).succeeds().out, expected);
    let absent = ["run", "--traceable-functions", "absent", "-l", "kprobe:vfs_r*"];
    place
        .run(&absent)
        .fails(2, &["failed to open the list of functions 'absent'"]);
}

#[test]
fn features_that_are_not_there_cannot_be_left_out() {
    let run = |features: &str| {
        WorkFolder::new().run(&[
            "run",
            "--no-feature",
            features,
            "--fmt",
            "-e",
            "begin { exit(); }",
        ])
    };
    run("kprobe_multi,kprobe_session,uprobe_multi").succeeds();
    run("kprobe_multi,other").fails(2, &["other", "kprobe_session"]);
}

/// Links are descriptors of the tracer, which is the parent of the command.
#[test]
fn links_for_many_functions_can_be_left_out() {
    needs_tracing!();
    let program = r#"uprobe:libc:open* { } begin { system("grep -l uprobe_multi /proc/$PPID/fdinfo/* | wc -l"); exit(); }"#;
    let links = |options: &[&str]| {
        let all = [&["run", "-q", "--unsafe", "-e", program][..], options].concat();
        let run = WorkFolder::new().run(&all).succeeds();
        run.out.trim().parse::<u32>().unwrap()
    };
    assert_eq!(links(&["--no-feature", "uprobe_multi"]), 0);
    // Linux 6.6 and later.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    let mut number = || numbers.next().unwrap().unwrap_or(0);
    if (number(), number()) >= (6, 6) {
        assert!(links(&[]) > 0);
    }
}
