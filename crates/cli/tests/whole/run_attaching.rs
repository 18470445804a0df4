//! `kestrel run`: probes that are attached, those that cannot be, and what is said of them.

use crate::command::{Answer, WorkFolder, needs_tracing};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A kind that a kernel has nothing of is missing as an event that does not exist is: as `missing_probes` says. It applies where the kernel lacks kprobes or
/// the processor counters, and says where it does not.
#[test]
fn kinds_that_a_kernel_does_not_have_are_missing_probes() {
    needs_tracing!();
    let place = WorkFolder::new();
    let lacks = |probe: &&str| {
        let answer = place.run(&["run", "--dry-run", "-e", &format!("{probe} {{ @ = count(); }}")]);
        answer.code == Some(4)
    };
    let kinds = ["kprobe:vfs_read", "hardware:cache-misses:1000000"];
    let Some(probe) = kinds.into_iter().find(lacks) else {
        eprintln!("skipped: this kernel has kprobes and counters");
        return;
    };
    let probes = format!(r#"{probe} {{ @ = count(); }} begin {{ printf("on\n"); exit(); }}"#);
    let ignoring = format!("config = {{ missing_probes = ignore }} {probes}");
    let out = place.run(&["run", "-q", "-e", &ignoring]).succeeds();
    assert_eq!((out.out.trim(), out.err.trim()), ("on", ""));
    let warning = format!("config = {{ missing_probes = warn }} {probes}");
    let out = place.run(&["run", "-q", "-e", &warning]).succeeds();
    assert!(out.err.contains("Skipping."), "{}", out.err);
}

/// More watchpoints than any processor has registers for, as a program.
fn watchpoints(policy: &str, rest: &str) -> String {
    let watch = |at: u64| {
        let address = 0xffff_ffff_8200_0000 + 8 * at;
        format!("watchpoint:{address:#x}:8:w {{ @ = count(); }}\n")
    };
    let all: String = (0..WATCHPOINTS).map(watch).collect();
    format!("config = {{ missing_probes = {policy} }}\n{rest}\n{all}")
}

const WATCHPOINTS: u64 = 17;

/// The debug registers, of which a test takes all.
static REGISTERS: Mutex<()> = Mutex::new(());

/// Probes that the kernel refuses are not said to be attached, and a program of such alone does not run.
#[test]
fn probes_that_the_kernel_refuses_are_not_counted() {
    needs_tracing!();
    let _registers = REGISTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let place = WorkFolder::new();
    let program = watchpoints("warn", "begin { exit(); }");
    for format in ["text", "json"] {
        let answer = place.run(&["run", "-f", format, "-e", &program]).succeeds();
        let refused = answer
            .err
            .matches("WARNING: could not attach watchpoint:")
            .count() as u64;
        if refused == 0 {
            eprintln!("skipped: {}", answer.err);
            return;
        }
        let attached = WATCHPOINTS + 1 - refused;
        let printed = match format {
            "json" => answer.out.contains(&format!(r#""probes": {attached}}}"#)),
            _ if attached == 1 => answer.err.contains("Attached 1 probe\n"),
            _ => answer.err.contains(&format!("Attached {attached} probes\n")),
        };
        assert!(printed, "{attached}: {} {}", answer.out, answer.err);
    }
    // One that holds all registers until it is killed.
    let mut held = place.command(&["run", "-e", &watchpoints("ignore", "interval:s:3600 { exit(); }")]);
    let mut held = held.stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = String::new();
    BufReader::new(held.stderr.take().unwrap())
        .read_line(&mut printed)
        .unwrap();
    let answer = place.run(&["run", "-e", &watchpoints("ignore", "")]);
    held.kill().unwrap();
    held.wait().unwrap();
    assert!(printed.starts_with("Attached "), "{printed}");
    answer.fails(1, &["Attachment failed for all probes.", "hint: watchpoint:"]);
}

/// Too few files are no reason to do without a probe: it is all of them, or an error that names the limit.
#[test]
fn probes_are_not_left_out_for_want_of_files() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program =
        "config = { missing_probes = ignore } tracepoint:sched:sched_* { @ = count(); } begin { exit(); }";
    let attached = |answer: &Answer| {
        let mut lines = answer.err.lines();
        lines
            .find(|line| line.starts_with("Attached "))
            .map(str::to_owned)
    };
    let all = attached(&place.run(&["run", "-e", program]).succeeds());
    assert!(all.is_some());
    let mut refused = 0;
    for files in [48, 64, 80] {
        let mut bounded = Command::new("sh");
        bounded
            .args(["-c", &format!("ulimit -n {files}; exec \"$K\" run -e \"$P\"")])
            .env("K", env!("CARGO_BIN_EXE_kestrel"))
            .env("P", program)
            .current_dir(place.path());
        let answer = Answer::from(bounded.output().unwrap());
        match answer.code {
            Some(0) => assert_eq!(attached(&answer), all, "{files}: {}", answer.err),
            _ => {
                answer.fails(1, &["EMFILE"]);
                refused += 1;
            }
        }
    }
    assert_ne!(refused, 0, "all of them fit into few files");
}

/// Output of a program with watchpoints in this process while a thread writes words every millisecond; `None` where programs have no debug registers.
fn output_while_written(place: &WorkFolder, program: &str, words: &[AtomicU64]) -> Option<String> {
    let pid = std::process::id().to_string();
    let plan = ["run", "--dry-run", "-q", "-p", &pid, "-e", program];
    if place.run(&plan).code != Some(0) {
        eprintln!("skipped: this machine gives programs no debug registers");
        return None;
    }
    let done = AtomicBool::new(false);
    let out = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for word in words {
                    word.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let run = place.run(&["run", "-q", "-p", &pid, "-e", program]);
        done.store(true, Ordering::Relaxed);
        run.succeeds().out
    });
    Some(out)
}

/// A thread of this process writes a word: each write is an event, with -p by a debug register of its threads alone; what lies there is read.
#[test]
fn watchpoints_see_writes() {
    needs_tracing!();
    let _registers = REGISTERS.lock().unwrap_or_else(PoisonError::into_inner);
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let (address, pid) = (&raw const WATCHED as usize, std::process::id().to_string());
    let program = format!(
        "watchpoint:{address:#x}:8:w {{ @hits = count(); @pids[pid] = 1; @values[*(uint64 *){address:#x} > 0] = 1; if (@n++ == 2) {{ exit(); }} }}"
    );
    let place = WorkFolder::new();
    let Some(out) = output_while_written(&place, &program, std::slice::from_ref(&WATCHED)) else {
        return;
    };
    assert!(
        out.contains("@hits: 3\n")
            && out.contains(&format!("@pids[{pid}]: 1\n"))
            && out.contains("@values[true]: 1\n")
            && !out.contains("@values[false]"),
        "{out}"
    );
    for (wrong, code, why) in [
        ("0x10:3:w", 2, "length must be one of (1,2,4,8)"),
        ("0x10:8:q", 2, "mode must be combination of (r,w,x)"),
        ("0x11:8:w", 4, "multiple of 8"),
    ] {
        let run = place.run(&["run", "-e", &format!("watchpoint:{wrong} {{ }}")]);
        run.fails(code, &[why]);
    }
}

/// After `unwatch` the writes are no hits any more, and the watchpoint of another address goes on.
#[test]
fn unwatch_removes_the_watchpoints_of_an_address() {
    needs_tracing!();
    let _registers = REGISTERS.lock().unwrap_or_else(PoisonError::into_inner);
    static WATCHED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
    let [first, second] = [0, 1].map(|word: usize| &raw const WATCHED[word] as usize);
    let program = format!(
        "watchpoint:{first:#x}:8:w {{ @first = count(); unwatch({first:#x}); unwatch(1); }}
         watchpoint:{second:#x}:8:w {{ @second = count(); if (@n++ == 1000) {{ exit(); }} }}"
    );
    let place = WorkFolder::new();
    let Some(out) = output_while_written(&place, &program, &WATCHED) else {
        return;
    };
    // It is removed when its record is read, some milliseconds after the first hit.
    let hits = out.lines().find_map(|line| line.strip_prefix("@first: "));
    let hits: u64 = hits
        .and_then(|hits| hits.parse().ok())
        .unwrap_or_else(|| panic!("{out}"));
    assert!(
        (1..900).contains(&hits) && out.contains("@second: 1001\n"),
        "{out}"
    );
    let wrong = place.run(&["run", "-e", "begin { unwatch(); }"]);
    wrong.fails(2, &["unwatch"]);
}

/// Commands that were asked for in the last moment of the traced command are run: only a signal leaves them out.
#[test]
fn commands_asked_for_before_the_end_are_run() {
    needs_tracing!();
    let program = r#"tracepoint:syscalls:sys_enter_getpriority /pid == cpid/ { system("echo asked"); }"#;
    let place = WorkFolder::new();
    std::fs::write(place.path().join("calls.pl"), "getpriority(0, 0) for 1..3").unwrap();
    let run = place.run(&["run", "-q", "--unsafe", "-c", "perl calls.pl", "-e", program]);
    let shown = run.succeeds();
    assert_eq!(shown.out.matches("asked\n").count(), 3, "{}", shown.err);
}

/// Clocks and software counters sample the command of `-c` alone, whatever else runs.
#[test]
fn clocks_sample_the_command() {
    needs_tracing!();
    for event in ["profile:hz:499", "software:cpu-clock:2000000"] {
        let program = format!("{event} {{ @[pid == cpid] = count(); }}");
        let place = WorkFolder::new();
        std::fs::write(place.path().join("busy.pl"), "1 for 1..20_000_000").unwrap();
        let run = place.run(&["run", "-q", "-c", "perl busy.pl", "-e", &program]);
        let out = run.succeeds().out;
        assert!(
            out.trim().starts_with("@[true]: ") && out.trim().lines().count() == 1,
            "{out}"
        );
    }
}

/// A handler runs as often as its probe names an event or matches it, and each time is a probe.
#[test]
fn an_event_that_is_named_again_runs_the_block_again() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::write(place.path().join("calls.pl"), "getpriority(0, 0) for 1..3").unwrap();
    let call = "tracepoint:syscalls:sys_enter_getpriority";
    for (events, probes, runs) in [
        ("begin,begin".to_owned(), 2, 2),
        (format!("{call},{call} /pid == cpid/"), 2, 6),
        (format!("{call},{call}*,{call} /pid == cpid/"), 3, 9),
    ] {
        let program = format!("{events} {{ @ = count(); }}");
        let run = place.run(&["run", "-c", "perl calls.pl", "-e", &program]);
        let shown = run.succeeds();
        let attached = format!("Attached {probes} probes\n");
        assert!(shown.err.contains(&attached), "{events}: {}", shown.err);
        assert_eq!(shown.out.trim(), format!("@: {runs}"), "{events}");
    }
}

/// Probes that stand for nothing are refused in bpftrace's words; a pattern beside other events may stand for nothing.
#[test]
fn probes_that_stand_for_nothing_are_refused() {
    needs_tracing!();
    let place = WorkFolder::new();
    let run = |program: &str| place.run(&["run", "-e", program]);
    for (program, said) in [
        (
            "tracepoint:sched:nono* { }",
            "Probe has no valid attach points. If this is expected, set the 'missing_probes' config variable to 'warn'.",
        ),
        ("nonsense:foo { }", "Invalid probe type: nonsense"),
        (
            "iter:nonsense { }",
            "iter nonsense not available for your kernel version.",
        ),
        (
            "uprobe:./none:f { }",
            "uprobe target file './none' does not exist or is not executable",
        ),
        (
            "tracepoint:sched:nono { }",
            "No matches for tracepoint sched:nono.",
        ),
        (
            "rawtracepoint:nonsense { }",
            "Probe has no valid attach points. If",
        ),
        (
            "rawtracepoint:nonsense:sys_exit { }",
            "No matches for rawtracepoint nonsense:sys_exit.",
        ),
        ("kretprobe:f+0 { }", "Offset not allowed"),
        ("software:cs:1e0 { }", "invalid trailing bytes: 1e0"),
    ] {
        run(program).fails(2, &[said]);
    }
    // Counts may be written with an exponent.
    run("software:cs:1e6 { } begin { exit(); }").succeeds();
    // Which functions may be traced not every machine says.
    if std::fs::read("/sys/kernel/tracing/available_filter_functions").is_ok() {
        run("fentry:nomod:vfs_read { }").fails(2, &["No matches for fentry nomod:vfs_read."]);
        std::fs::write(place.path().join("functions"), "vfs_write\n").unwrap();
        let unlisted = [
            "run",
            "--traceable-functions",
            "functions",
            "-e",
            "fentry:vfs_read { }",
        ];
        place
            .run(&unlisted)
            .fails(2, &["No matches for fentry vfs_read."]);
    }
    let beside = run("tracepoint:sched:nono*, begin { exit(); }").succeeds();
    assert!(beside.err.contains("Attached 1 probe\n"), "{}", beside.err);
}

/// An event has its handlers in source order, also where lists and patterns overlap without being the same; each place warns once.
#[test]
fn handlers_of_overlapping_probes_keep_their_source_order() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::write(place.path().join("from"), "x").unwrap();
    let probe = |events: &str, block: &str| format!("{events} /pid == cpid/ {{ {block} }}\n");
    let sync = "tracepoint:syscalls:sys_enter_fsync";
    let program = [
        probe(sync, "@x = 1; printf(\"1 \");"),
        probe(
            &format!("tracepoint:syscalls:sys_enter_fdatasync, {sync}"),
            "@x = @x * 10 + 2; @n[probe] = count(); printf(\"2 \"); while (0) {}",
        ),
        probe("tracepoint:syscalls:sys_enter_f*", "@f[probe] = count();"),
        probe(sync, "printf(\"3 %d\\n\", @x);"),
    ]
    .concat();
    let command = "dd if=from of=to conv=fsync,fdatasync";
    let run = place.run(&["run", "-e", &program, "-c", command]).succeeds();
    assert!(run.out.contains("1 2 3 12\n"), "{}", run.out);
    for name in ["fsync", "fdatasync"] {
        let of = |map: &str| format!("@{map}[tracepoint:syscalls:sys_enter_{name}]: 1\n");
        assert!(run.out.contains(&of("f")), "{}", run.out);
        assert!(run.out.contains(&of("n")), "{}", run.out);
    }
    assert_eq!(run.err.matches("deprecated").count(), 1, "{}", run.err);
}

/// Several names of one function in a list are probes of their own, each with its name.
#[test]
fn aliases_in_a_list_have_their_names() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = r#"uprobe:libc:open,uprobe:libc:open64 /pid == cpid/ { printf("%s %s\n", probe, func); @[probe] = count(); }"#;
    let out = place.run(&["run", "-q", "-e", program, "-c", "grep -c x /dev/null"]);
    let lines: BTreeSet<&str> = out.out.lines().collect();
    for name in ["open", "open64"] {
        let is_own = |line: &&str| line.ends_with(&format!(":{name} {name}"));
        assert!(lines.iter().any(is_own), "{}", out.out);
        assert!(out.out.contains(&format!(":{name}]: ")), "{}", out.out);
    }
}

/// Kinds may have capital letters, and a comma may stand behind the last event.
#[test]
fn events_are_spelled_as_bpftrace_takes_them() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "Begin, { print(1); } INTERVAL:ms:10, /1/ { print(probe); exit(); } Tracepoint:sched:sched_switch, { @ = 1; }";
    let out = place.run(&["run", "-q", "-e", program]).succeeds().out;
    assert!(out.starts_with("1\ninterval:ms:10\n"), "{out}");
    place
        .run(&["run", "-e", "kprobe:0xffffffff81000000 { }"])
        .fails(2, &["Probing by address requires --unsafe"]);
}
