//! System calls as people read them: lines and tables against strace's of the same program.

use crate::command::{WorkFolder, has, needs_tracing};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

/// A hundred calls, most of which fail, between two calls of access(2) with these names.
const AWKWARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole/awkward.pl");
const BEGIN: &str = "/kestrel-begin";
const END: &str = "/kestrel-end";

/// A call as either tool writes it.
#[derive(Debug)]
struct Line {
    call: String,
    arguments: Vec<String>,
    result: String,
}

/// `call(a, "b, c", {d, e}) = result`.
fn line(text: &str) -> Option<Line> {
    let (call, rest) = text.split_once('(')?;
    let mut arguments = vec![String::new()];
    let (mut depth, mut quoted, mut escaped, mut end) = (0, false, false, None);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => {}
            '"' => quoted = !quoted,
            '{' | '[' | '(' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => {
                end = Some(at);
                break;
            }
            '}' | ']' | ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        escaped = c == '\\' && quoted && !escaped;
        arguments.last_mut()?.push(c);
    }
    let (_, result) = rest[end?..].split_once(" = ")?;
    Some(Line {
        call: call.to_owned(),
        arguments: arguments
            .iter()
            .map(|it| it.trim().to_owned())
            .filter(|it| !it.is_empty())
            .collect(),
        result: result.trim().to_owned(),
    })
}

/// The calls between the marks.
fn marked(text: &str, strip: impl Fn(&str) -> Option<String>) -> Vec<Line> {
    let lines = text.lines().filter_map(|text| line(&strip(text)?));
    let all: Vec<Line> = lines
        .skip_while(|line| !line.arguments.iter().any(|it| it.contains(BEGIN)))
        .collect();
    let end = all
        .iter()
        .position(|line| line.arguments.iter().any(|it| it.contains(END)));
    all.into_iter().take(end.unwrap() + 1).collect()
}

/// `TIME COMM/TID call(name: value) = result <duration>` as strace's line.
fn without_names(text: &str) -> Option<String> {
    let place = text.find('/')?;
    let call = text[place..].split_once(' ')?.1.trim_start();
    let call = call.rsplit_once(" <").map_or(call, |(call, _)| call);
    Some(call.to_owned())
}

/// An argument without its name and without the file behind a descriptor.
fn value(argument: &str) -> &str {
    let value = argument.split_once(": ").map_or(argument, |(_, value)| value);
    bare(value)
}

fn bare(value: &str) -> &str {
    match value.split_once('<') {
        Some((number, _)) if number.parse::<i64>().is_ok() => number,
        _ => value,
    }
}

/// Names that strace has for what the headers call otherwise, or puts there by itself.
fn flags(value: &str) -> BTreeSet<&str> {
    let names = value.split('|').flat_map(|name| match name {
        "WSTOPPED" => vec!["WUNTRACED"],
        "AT_STATX_SYNC_AS_STAT" => vec![],
        "NETLINK_ROUTE" | "IPC_PRIVATE" => vec!["0"],
        name => match name
            .strip_suffix("_PRIVATE")
            .filter(|_| name.starts_with("FUTEX_"))
        {
            Some(operation) => vec![operation, "FUTEX_PRIVATE_FLAG"],
            None => vec![name],
        },
    });
    names.collect()
}

/// Whether two arguments say the same. strace comments numbers without a name.
fn same(theirs: &str, ours: &str) -> bool {
    if theirs.starts_with("0x") || theirs.contains("_???") || theirs.starts_with("_IOC(") {
        return true;
    }
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    if theirs == ours
        || flags(theirs) == flags(ours)
        || number(theirs).is_some() && number(theirs) == number(ours)
    {
        return true;
    }
    // Of a buffer, bytes behind the first NUL are not read; the random ones differ.
    let start = ours.trim_end_matches("...").trim_end_matches('"');
    theirs.starts_with('"') && (theirs.starts_with(start) || theirs.contains("\\x"))
}

/// Whether an argument is the address of what only strace reads, or is of each run.
fn is_unread(call: &str, argument: &str) -> bool {
    // The time is another in each run.
    let is_time = call == "clock_gettime" && argument.starts_with("tp: {tv_sec=");
    is_time
        || matches!(
            (call, argument.split_once(": 0x")),
            ("prctl", Some(("arg2", _))) | ("setxattr", Some(("value", _)))
        )
}

#[test]
fn lines_equal_those_of_strace() {
    needs_tracing!();
    if !has("strace") || !has("perl") {
        return;
    }
    let place = WorkFolder::new();
    let strace = Command::new("strace")
        .args(["-s", "32", "-o", "strace.txt", "perl", AWKWARD])
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !strace.status.success() {
        eprintln!("skipped: strace may not trace here");
        return;
    }
    std::fs::remove_file(place.path().join("made")).unwrap();
    let theirs = std::fs::read_to_string(place.path().join("strace.txt")).unwrap();
    let theirs = marked(&theirs, |text| Some(text.to_owned()));
    let ours = place
        .run(&["trace", "--syscalls", "--", "perl", AWKWARD])
        .succeeds();
    assert!(!ours.err.contains("lost"), "{}", ours.err);
    let ours = marked(&ours.out, without_names);
    assert!(theirs.len() >= 50, "{}", theirs.len());
    assert_eq!(theirs.len(), ours.len());
    let mut differences = Vec::new();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        if theirs.call.starts_with("syscall_") {
            continue;
        }
        assert_eq!(theirs.call, ours.call, "{theirs:?} {ours:?}");
        // strace leaves out arguments that do not count for an operation.
        let shown = if theirs.call == "futex" { 3 } else { 6 };
        let arguments = theirs.arguments.iter().zip(&ours.arguments).take(shown);
        let other = arguments.filter(|(a, b)| !is_unread(&theirs.call, b) && !same(bare(a), value(b)));
        differences.extend(other.map(|(a, b)| format!("{}: {a} is not {b}", theirs.call)));
        // Addresses, numbers of processes and flags as a result are of each run.
        let failed = theirs.result.starts_with("-1");
        let is_own = matches!(theirs.call.as_str(), "mmap" | "getpid" | "fcntl" | "shmget");
        if failed || !is_own {
            assert_eq!(theirs.result, bare(&ours.result), "{theirs:?} {ours:?}");
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}

/// Calls and errors by call, out of a table like strace -c's.
fn counts(table: &str) -> BTreeMap<String, (u64, u64)> {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let errors = |word: &str| word.parse().unwrap_or(0);
        match words[..] {
            [_, _, _, calls, errors_, call] => {
                Some((call.to_owned(), (calls.parse().ok()?, errors(errors_))))
            }
            [_, _, _, calls, call] => Some((call.to_owned(), (calls.parse().ok()?, 0))),
            _ => None,
        }
    });
    rows.filter(|(call, _)| call != "total").collect()
}

#[test]
fn tables_equal_those_of_strace() {
    needs_tracing!();
    if !has("strace") || !has("perl") {
        return;
    }
    let place = WorkFolder::new();
    let strace = Command::new("strace")
        .args(["-f", "-c", "-o", "counts.txt", "perl", AWKWARD])
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !strace.status.success() {
        eprintln!("skipped: strace may not trace here");
        return;
    }
    let file = std::fs::read_to_string(place.path().join("counts.txt")).unwrap();
    let mut theirs = counts(&file);
    // It has no name for the number, and does not count it.
    theirs.retain(|call, _| !call.starts_with("syscall_"));
    let check = |table: &str, how: &str| {
        let mut ours = counts(table);
        ours.retain(|call, _| !call.starts_with("syscall_"));
        // Reads of libraries by their sizes, and the places of their mappings, are the same in each run.
        assert_eq!(theirs, ours, "{how}");
    };
    let live = place
        .run(&["trace", "--syscalls", "--summary", "--", "perl", AWKWARD])
        .succeeds();
    // Its standard output is the command's.
    check(&live.err, "live");
    // A set without the command's exec counts what comes after it.
    let some = place
        .run(&["trace", "--syscalls=!file", "--summary", "--", "perl", AWKWARD])
        .succeeds();
    let some = counts(&some.err);
    assert_eq!(some.get("brk"), theirs.get("brk"), "{some:?}");
    assert_eq!(some.get("execve"), None);
    place
        .run(&["record", "--syscalls", "--", "perl", AWKWARD])
        .succeeds();
    check(
        &place.run(&["report", "--syscalls"]).succeeds().out,
        "recorded as calls",
    );
    let printed = place.run(&["print", "--syscalls=openat"]).succeeds().out;
    let lines = printed.lines().filter(|line| line.contains(" openat(dfd: "));
    let counted = theirs.get("openat").map(|(calls, _)| *calls);
    assert_eq!(Some(lines.count() as u64), counted, "{printed}");
    for events in ["raw_syscalls:*", "syscalls:*"] {
        place
            .run(&["record", "-e", events, "--", "perl", AWKWARD])
            .succeeds();
        check(&place.run(&["report", "--syscalls"]).succeeds().out, events);
    }
    let threads = place
        .run(&["report", "--syscalls", "--by", "thread", "--format", "json"])
        .succeeds();
    let threads: serde_json::Value = serde_json::from_str(&threads.out).unwrap();
    let rows = threads["syscalls"][0]["rows"].as_array().unwrap();
    let calls = |row: &serde_json::Value| (row["calls"].as_u64().unwrap(), row["errors"].as_u64().unwrap());
    let openat = rows.iter().find(|row| row["call"] == "openat").map(calls);
    assert_eq!(openat.as_ref(), theirs.get("openat"));
}

#[test]
fn calls_that_libraries_make_instead_are_hinted_at() {
    needs_tracing!();
    let place = WorkFolder::new();
    let hint = |set: &str| {
        let answer = place.run(&["trace", &format!("--syscalls={set}"), "--", "cat", "/dev/null"]);
        answer.succeeds().err
    };
    let others =
        "none of these calls came; libraries may make others in their place: --syscalls=openat,openat2";
    assert!(hint("open").contains(others), "{}", hint("open"));
    let sethostname = hint("sethostname");
    assert!(
        sethostname.contains("none of these calls came\n"),
        "{sethostname}"
    );
    assert!(!hint("open,openat").contains("none of these calls"));
}

#[test]
fn numbers_are_numbers_in_json_and_names_in_text() {
    needs_tracing!();
    let place = WorkFolder::new();
    let events = "syscalls:sys_enter_openat,syscalls:sys_exit_openat";
    let command = ["--", "cat", "/no/such/file"];
    let run = |arguments: &[&str]| {
        let arguments = [arguments, &command].concat();
        let answer = place.run(&arguments);
        assert!(
            answer.err.contains("No such file") || !answer.out.is_empty(),
            "{}",
            answer.err
        );
        answer.out
    };
    // One by one, and among so many that they share a program.
    for events in [events, "syscalls:*"] {
        run(&["record", "-e", events]);
        let text = place.run(&["print"]).succeeds().out;
        let named = "dfd=AT_FDCWD";
        assert!(
            text.lines()
                .any(|line| line.contains(named) && line.contains("flags=O_RDONLY")),
            "{text}"
        );
        assert!(
            text.contains("sys_exit_openat: __syscall_nr=257 ret=-2"),
            "{text}"
        );
        let json = place.run(&["print", "--format", "json"]).succeeds().out;
        assert!(
            json.contains(r#""dfd":-100"#) && json.contains(r#""flags":0,"mode":0"#),
            "{json}"
        );
    }
    let options = ["--failed-only", "--no-exits", "--signal=none", "--format", "json"];
    let json = run(&[&["trace", "--syscalls=openat"], &options[..]].concat());
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(
        last["args"][0],
        serde_json::json!({"name": "dfd", "value": -100, "text": "AT_FDCWD"})
    );
    assert_eq!((&last["ret"], &last["error"]), (&(-2).into(), &"ENOENT".into()));
}

#[test]
fn slow_calls_are_chosen_live_and_of_a_recording() {
    needs_tracing!();
    let place = WorkFolder::new();
    let only = ["--slower-than", "50ms", "--no-exits", "--signal=none"];
    // A busy machine may make any call slow: each line says itself how long its call took.
    let slept = |out: &str| {
        let took = |line: &str| -> Option<f64> {
            let (_, time) = line.trim_end().strip_suffix('>')?.rsplit_once('<')?;
            time.parse().ok()
        };
        assert!(out.contains("clock_nanosleep"), "{out}");
        let is_slow = |line: &str| took(line).is_some_and(|seconds| seconds >= 0.05);
        assert!(out.lines().all(is_slow), "{out}");
    };
    let live = [
        &["trace", "--syscalls"],
        &only[..],
        &["--duration", "9", "--", "sleep", "0.1"],
    ]
    .concat();
    let answer = place.run(&live).succeeds();
    slept(&answer.out);
    assert!(answer.err.contains("--slower-than 9ms"), "{}", answer.err);
    place
        .run(&["record", "--syscalls", "--", "sleep", "0.1"])
        .succeeds();
    slept(&place.run(&[&["print"], &only[..]].concat()).succeeds().out);
    let other = ["trace", "--syscalls", "--duration", "9s", "--", "true"];
    let answer = place.run(&other).succeeds();
    assert!(!answer.err.contains("--slower-than"), "{}", answer.err);
}

#[test]
fn descriptors_are_followed() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::write(place.path().join("file"), "text").unwrap();
    let script = "cd /; exec 7<etc/passwd; read x <&7; exec 8<&7 7<&-; read x <&7; cat <&8 >/dev/null";
    let answer = place.run(&["trace", "--syscalls=dup2,read,chdir", "--", "sh", "-c", script]);
    let lines: Vec<&str> = answer.out.lines().collect();
    let has = |words: &[&str]| {
        lines
            .iter()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(
        has(&["dup2(oldfd: 7</etc/passwd>", "newfd: 8)", "= 8</etc/passwd>"]),
        "{}",
        answer.out
    );
    assert!(has(&["cat/", "read(fd: 0</etc/passwd>"]), "{}", answer.out);
    assert!(!answer.out.contains("openat("), "{}", answer.out);
}

#[test]
fn signals_and_ends_stand_between_calls() {
    needs_tracing!();
    let place = WorkFolder::new();
    let script = "trap : USR1; kill -USR1 $$; sh -c 'kill -KILL $$'; exit 3";
    let thread_lines = |text: &str| -> Vec<String> {
        let marked = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once('/')?;
            let (_, rest) = rest.split_once(' ')?;
            let rest = rest.trim_start();
            (rest.starts_with("---") || rest.starts_with("+++")).then(|| rest.to_owned())
        });
        // Whether a shell has a handler for its children is its own affair.
        marked.filter(|line| !line.contains("SIGCHLD")).collect()
    };
    let check = |lines: &[String]| {
        let [signal, killed, exited] = lines else {
            panic!("{lines:#?}");
        };
        let begin = "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=";
        assert!(signal.starts_with(begin) && signal.ends_with("} ---"), "{signal}");
        assert_eq!(killed, "+++ killed by SIGKILL +++");
        assert_eq!(exited, "+++ exited with 3 +++");
    };
    let trace = |options: &[&str]| {
        let words = [
            &["trace", "--syscalls=kill"],
            options,
            &["--", "sh", "-c", script],
        ]
        .concat();
        place.run(&words)
    };
    check(&thread_lines(&trace(&[]).out));
    let none = trace(&["--signal=none", "--no-exits"]);
    assert_eq!(thread_lines(&none.out), Vec::<String>::new());
    let others = trace(&["--signal=!usr1"]);
    assert_eq!(thread_lines(&others.out).len(), 2, "{}", others.out);
    let json = trace(&["--format", "json"]);
    for word in ["\"signal\":\"SIGUSR1\"", "\"killed\":\"SIGKILL\"", "\"exited\":3"] {
        assert!(json.out.contains(word), "{word} {}", json.out);
    }
    trace(&["--signal=FOO"]).fails(2, &["FOO", "is no signal"]);
    trace(&["--signal=INT,!CHLD"]).fails(2, &["!CHLD", "behind signals without"]);
    place.run(&["record", "--syscalls=kill", "--", "sh", "-c", script]);
    check(&thread_lines(&place.run(&["print"]).succeeds().out));
    let ends = place.run(&["print", "--signal=none"]).succeeds();
    assert_eq!(thread_lines(&ends.out).len(), 2, "{}", ends.out);
}

#[test]
fn a_call_that_ends_a_handler_stands_where_it_was_made() {
    needs_tracing!();
    let place = WorkFolder::new();
    // The second signal comes after the return of the first one's handler.
    let script = "trap : USR1; kill -USR1 $$; kill -USR1 $$; exit 3";
    for set in ["rt_sigreturn", "rt_sigreturn,kill"] {
        let answer = place.run(&["trace", &format!("--syscalls={set}"), "--", "sh", "-c", script]);
        let thread_lines = answer.out.lines().filter_map(|line| {
            let words = ["--- SIGUSR1", "rt_sigreturn(", "+++ exited"];
            words.into_iter().find(|word| line.contains(word))
        });
        let thread_lines: Vec<&str> = thread_lines.collect();
        let each = ["--- SIGUSR1", "rt_sigreturn("];
        let expected = [&each[..], &each[..], &["+++ exited"]].concat();
        assert_eq!(thread_lines, expected, "{}", answer.out);
        assert!(!answer.out.contains("unfinished"), "{}", answer.out);
    }
}

#[test]
fn the_stacks_of_each_calls_entry_stand_beneath_it() {
    needs_tracing!();
    let place = WorkFolder::new();
    let command = ["--", "cat", "/proc/version"];
    let check = |text: &str| {
        let (mut calls, mut opened) = (0, 0);
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if !line.contains("openat(") && !line.contains("execve(") {
                continue;
            }
            calls += 1;
            let frames = std::iter::from_fn(|| lines.next_if(|line| line.starts_with("                ")));
            let frames: Vec<&str> = frames.map(str::trim_start).collect();
            let (kernel, user): (Vec<&str>, Vec<&str>) =
                frames.iter().partition(|frame| frame.starts_with("ffff"));
            assert!(
                frames.iter().all(|frame| !frame.ends_with("is empty")),
                "{line}\n{text}"
            );
            assert!(
                kernel.iter().any(|frame| frame.contains(" do_syscall_64+")),
                "{line}\n{text}"
            );
            assert!(
                user.iter().any(|frame| frame.starts_with("0000")),
                "{line}\n{text}"
            );
            if line.contains("\"/proc/version\", flags") {
                opened += 1;
                assert!(
                    user.iter().any(|frame| frame.contains(" open64+")),
                    "{line}\n{text}"
                );
            }
        }
        assert!(calls > 2 && opened == 1, "{text}");
        calls
    };
    let live = place.run(&[&["trace", "--syscalls=openat,execve", "-g"], &command[..]].concat());
    let calls = check(&live.succeeds().out);
    for stacks in [&["-g"][..], &["--call-graph", "dwarf,512"]] {
        let record = ["record", "-q", "--syscalls=openat,execve"];
        place.run(&[&record[..], stacks, &command].concat()).succeeds();
        assert_eq!(check(&place.run(&["print"]).succeeds().out), calls);
        let objects = place.json_lines(&["print"]);
        let of_calls: Vec<_> = objects.iter().filter(|it| it["call"].is_string()).collect();
        assert_eq!(of_calls.len(), calls);
        for call in of_calls {
            for stack in ["kstack", "ustack"] {
                assert!(
                    call[stack].as_array().is_some_and(|it| !it.is_empty()),
                    "{stack}: {call}"
                );
            }
            if call["args"][1]["text"] == "\"/proc/version\"" {
                let mut frames = call["ustack"].as_array().unwrap().iter();
                let is_open = |it: &serde_json::Value| it.as_str().unwrap().starts_with("open64+");
                assert!(frames.any(is_open), "{call}");
            }
        }
        let graph = place.run(&["report", "-g"]).succeeds();
        assert!(graph.out.contains("do_syscall_64"), "{}", graph.out);
    }
    let summary = ["trace", "--syscalls", "-s", "-g"];
    place
        .run(&[&summary[..], &command].concat())
        .fails(2, &["--stacks"]);
}

#[test]
fn words_of_sets_that_mean_nothing_are_refused() {
    needs_tracing!();
    let place = WorkFolder::new();
    let answer = place.run(&["trace", "--syscalls=opena,read", "--", "true"]);
    answer.fails(2, &["opena", "openat"]);
    place
        .run(&["trace", "--summary", "--", "true"])
        .fails(2, &["--syscalls"]);
    for choice in ["--signal=INT", "--no-exits"] {
        place
            .run(&["trace", choice, "-e", "sched:sched_process_exec", "--", "true"])
            .fails(2, &["--syscalls"]);
    }
    place
        .run(&["record", "-e", "sched:sched_process_exec", "--", "true"])
        .succeeds();
    for choice in ["--signal=INT", "--no-exits"] {
        let answer = place.run(&["print", choice]);
        answer.fails(1, &["no events of system calls", "hint:"]);
    }
    place
        .run(&["report", "--syscalls"])
        .fails(1, &["no events of system calls", "hint:"]);
}

#[test]
fn questions_that_system_calls_do_not_answer_say_what_does() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = [
        "record",
        "--syscalls=openat",
        "-o",
        "t",
        "--",
        "cat",
        "/etc/passwd",
    ];
    place.run(&record).succeeds();
    let pair = "syscalls:sys_enter_openat,syscalls:sys_exit_openat";
    place.run(&["report", "--latency", pair, "t"]).fails(
        2,
        &["no event of this trace", "kestrel report --syscalls", "--trace"],
    );
    place
        .run(&["print", "-e", "syscalls:sys_enter_openat", "t"])
        .fails(2, &["kestrel print --syscalls"]);
    // As the hint says, a program finds it by that name.
    let program = "tracepoint:syscalls:sys_enter_openat { @ = count() }";
    let counted = place.run(&["run", "-e", program, "--trace", "t"]).succeeds();
    assert!(counted.out.contains("@: "), "{}", counted.out);
    let none = place.run(&["record", "--syscalls=reboot", "-o", "none", "--", "true"]);
    none.succeeds();
    let table = place.run(&["report", "--syscalls", "none"]).succeeds();
    assert!(
        table.err.contains("no system call that is asked for is in none"),
        "{}",
        table.err
    );
}
