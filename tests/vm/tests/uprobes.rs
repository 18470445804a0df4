//! Functions of programs and libraries: counted against programs that call them so many times, with the values that they were called with.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::fs;
use std::process::Command;
use std::time::Instant;
use vm_tests::pages::Page;
use vm_tests::recording::record_command;
use vm_tests::{kestrel, run};

/// The function of the program `calls` that is called with 0, 1, 2, … and a text.
const DOUBLED: &str = "calls:rust:calls::doubled";
const CALLS: u64 = 5_000;

/// The value of a map that has no keys.
fn value(printed: &str, map: &str) -> u64 {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{map}: ")));
    line.unwrap_or_else(|| panic!("no {map} in {printed}"))
        .parse()
        .unwrap()
}

#[test]
fn calls_of_four_threads_are_counted_to_the_last_one() {
    let count = CALLS.to_string();
    for probe in ["uprobe", "uretprobe"] {
        // By itself, and as a set of one program.
        for place in [DOUBLED, "calls:*doubled*"] {
            let event = format!("{probe}:{place} {{ record(); @n = count() }}");
            let (records, counts) = record_command(&["-e", &event], &["calls", "function", &count, "4"]);
            assert_eq!((counts.lost, counts.missed), (0, 0), "{event}");
            assert_eq!(records.len() as u64, 4 * CALLS, "{event}");
        }
    }
}

#[test]
fn arguments_texts_and_results_are_those_of_the_call() {
    let (entry, back) = (format!("uprobe:{DOUBLED}"), format!("uretprobe:{DOUBLED}"));
    let (asked, answered) = (
        format!("{entry} {{ record(arg0, text = str(arg1, arg2), first = *(uint8 *)arg1) }}"),
        format!("{back} {{ record(retval, was = entry.arg0) }}"),
    );
    let (records, counts) = record_command(&["-e", &asked, "-e", &answered], &["calls", "function", "50"]);
    assert_eq!((counts.lost, counts.missed, records.len()), (0, 0, 100));
    for (number, pair) in (0..).zip(records.chunks(2)) {
        let [asked, answered] = pair else { panic!() };
        assert!(asked.event.starts_with("uprobe:/") && answered.event.starts_with("uretprobe:/"));
        assert_eq!(asked.number("arg0"), number);
        assert_eq!(asked.text("text"), "a text of the program");
        assert_eq!(asked.number("first"), i64::from(b'a'));
        assert_eq!(
            (answered.number("retval"), answered.number("was")),
            (2 * number, number)
        );
    }
}

#[test]
fn only_the_process_that_is_meant_is_seen() {
    let mut others = std::process::Command::new("calls")
        .args(["function", "2000000000"])
        .spawn()
        .unwrap();
    let event = format!("uprobe:{DOUBLED}");
    // A command's calls are those of its processes; all of them are somebody's.
    let (records, _) = record_command(&["-e", &event], &["calls", "function", "30"]);
    assert_eq!(records.len(), 30);
    let pid = others.id().to_string();
    let printed = kestrel(&[
        "trace",
        "-p",
        &pid,
        "--duration",
        "1s",
        "-e",
        &format!("{event} {{ @[pid] = count() }}"),
    ])
    .success();
    assert!(printed.contains(&format!("@[{pid}]: ")), "{printed}");
    assert_eq!(printed.matches("@[").count(), 1, "{printed}");
    others.kill().unwrap();
    others.wait().unwrap();
}

#[test]
fn a_uprobe_at_any_offset_leaves_the_function_working() {
    let program = |offset: u64| {
        let event = format!("uprobe:{DOUBLED}+{offset:#x} {{ @n = count() }}");
        kestrel(&["trace", "-e", &event, "--", "calls", "function", "100"])
    };
    let (mut taken, mut refused) = (0, 0);
    for offset in 0..24 {
        let run = program(offset);
        match run.code {
            Some(0) => {
                taken += 1;
                // `calls` itself checks what the function gives.
                assert_eq!(value(&run.out, "@n"), 100, "+{offset:#x}: {}", run.err);
            }
            _ => {
                refused += 1;
                let why = ["into middle of instruction", "outside the function bounds"];
                assert!(why.iter().any(|why| run.err.contains(why)), "{}", run.err);
            }
        }
    }
    assert!(taken > 2 && refused > 2, "{taken} taken, {refused} refused");
}

#[test]
fn libraries_are_found_by_name_and_wrong_names_are_answered() {
    let trace = |event: &str| kestrel(&["trace", "-e", event, "--", "bash", "-c", "echo $((1 + 1))"]);
    let all = trace("uprobe:libc:*alloc* { @[func] = count() }");
    assert!(all.out.contains("@[malloc]: "), "{} {}", all.out, all.err);
    let names = kestrel(&[
        "trace",
        "-e",
        "uprobe:libc:getenv { @[str(arg0)] = count() }",
        "--",
        "bash",
        "-c",
        "true",
    ]);
    assert!(names.out.contains("@["), "{} {}", names.out, names.err);
    for (event, wanted) in [
        ("uprobe:libc:mallox", "did you mean malloc"),
        ("uprobe:nowhere:f", "no program of this name in PATH"),
        ("uprobe:/etc/passwd:f", "/etc/passwd"),
        ("uprobe:calls", "uprobe:PATH:FUNCTION"),
        (
            "uretprobe:calls:rust:calls::doubled+4",
            "an offset is not allowed",
        ),
        ("uprobe:calls:0x1", "calls:0x1"),
    ] {
        let run = trace(&format!("{event} {{ @ = count() }}"));
        assert_ne!(run.code, Some(0), "{event}: {}", run.out);
        assert!(run.err.contains(wanted), "{event}: {}", run.err);
    }
    let strlen = trace("uprobe:libc:strlen { @n = count() }");
    assert!(strlen.err.contains("indirect function"), "{}", strlen.err);
}

#[test]
fn tables_and_named_probes_have_them_too() {
    let text = format!("table t {{ uprobe:{DOUBLED} {{ record(arg0); @n = count() }} }}");
    fs::write("/tmp/user.kst", text).unwrap();
    kestrel(&["start", "user", "/tmp/user.kst"]).success();
    kestrel(&[
        "probe",
        "add",
        "twice",
        &format!("uretprobe:{DOUBLED}"),
        "--session",
        "user",
    ])
    .success();
    run("calls", &["function", "500"]).success();
    kestrel(&["buffer", "resize", "main", "8M", "--session", "user"]).success();
    run("calls", &["function", "500"]).success();
    let list = kestrel(&["handler", "list", "--session", "user"]).success();
    assert_eq!(value(&list.replace("    ", ""), "@n"), 1000, "{list}");
    let probes = kestrel(&["probe", "list", "--session", "user", "--format", "json"]).success();
    let probe: serde_json::Value = serde_json::from_str(probes.lines().next().unwrap()).unwrap();
    assert_eq!(probe["hits"], 1000, "{probe}");
    kestrel(&["stop", "user"]).success();
}

/// With `-c`, probes of files see the command alone, as bpftrace's do, and clocks and counters what it forks, too.
#[test]
fn probes_of_files_see_the_command_alone() {
    fs::write("/tmp/both.sh", "calls function 30 1\nexec calls function 20 1\n").unwrap();
    let program = format!(
        "uprobe:{DOUBLED} {{ @in = count(); @own[pid == cpid] = count() }} uretprobe:{DOUBLED} {{ @out = count() }}
         software:page-faults:1 {{ @faults[pid == cpid] = count() }}"
    );
    let run = kestrel(&["run", "-e", &program, "-c", "sh /tmp/both.sh"]);
    for line in ["@in: 20\n", "@out: 20\n", "@own[true]: 20\n"] {
        assert!(run.out.contains(line), "{line} in {}\n{}", run.out, run.err);
    }
    assert!(!run.out.contains("@own[false]"), "{}", run.out);
    for counted in ["@faults[true]: ", "@faults[false]: "] {
        assert!(run.out.contains(counted), "{counted} in {}", run.out);
    }
}

/// Where nothing runs behind `begin`, nothing is waited for, be it a command or a process.
#[test]
fn a_program_of_begin_and_end_does_not_wait() {
    let program = "begin { print(1) } end { print(2) }";
    let began = Instant::now();
    let mut other = Command::new("sleep").arg("3000").spawn().unwrap();
    let pid = other.id().to_string();
    for of in [["-c", "sleep 3000"], ["-p", pid.as_str()]] {
        let run = kestrel(&["run", "-q", "-e", program, of[0], of[1]]);
        assert_eq!(run.success().trim(), "1\n2");
    }
    assert_eq!(
        other.try_wait().unwrap(),
        None,
        "it is not ended with the program"
    );
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(began.elapsed().as_secs() < 3000);
}

#[test]
fn commands_of_the_page_about_events_run() {
    Page::of("events.md").run(2);
}

/// Stacks of a program without frame pointers are keys whose frames the kernel's program finds by `.eh_frame`: at the function, at its system call, and in
/// samples. They equal those that are found when they are printed.
#[test]
fn stacks_without_frame_pointers_are_keys() {
    let ran = |program: &str, count: &str| {
        let config = "config = { unstable_dw_ustack = enable }";
        let program = format!("{config} {program}");
        kestrel(&["run", "-q", "-e", &program, "-c", &format!("calls deep {count}")]).success()
    };
    let levels = |printed: &str| {
        let line = |line: &str| {
            let name = line.trim().split('+').next()?;
            Some(name.strip_prefix("calls::level_")?.parse::<u32>().unwrap())
        };
        printed.lines().filter_map(line).collect::<Vec<_>>()
    };
    let all: Vec<u32> = (1..=12).rev().collect();
    for event in [
        "uprobe:calls:rust:calls::level_12",
        "tracepoint:syscalls:sys_enter_getppid /pid == cpid/",
    ] {
        let held = ran(&format!("{event} {{ @[dw_ustack] = count(); }}"), "20");
        assert_eq!(levels(&held), all, "{event}: {held}");
        assert!(held.contains("]: 20\n"), "{event}: {held}");
        let printed = ran(&format!("{event} {{ print(dw_ustack); }}"), "1");
        assert_eq!(levels(&printed), all, "{event}: {printed}");
    }
    // Whichever of the functions a sample falls into, those that called it follow without a gap.
    let sampled = ran("profile:hz:499 { @[dw_ustack] = count(); }", "30000");
    let stacks = sampled
        .split("@[")
        .map(levels)
        .filter(|levels| !levels.is_empty());
    let stacks: Vec<Vec<u32>> = stacks.collect();
    assert!(!stacks.is_empty(), "{sampled}");
    for stack in stacks {
        let whole: Vec<u32> = (1..=stack[0]).rev().collect();
        assert_eq!(stack, whole, "{sampled}");
    }
}
