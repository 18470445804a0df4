//! System calls as people read them: what a program's arguments point to, line by line against strace of the same program in the same guest.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use vm_tests::{kestrel, run, until};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/awkward_calls"));
const COMPAT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/compat_calls"));
const BEGIN: &str = "\"/kestrel-begin\"";
const END: &str = "\"/kestrel-end\"";

/// The differences, in words of strace and of ours, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    // The same number has two names in the headers.
    ("WSTOPPED", "WUNTRACED", "wait4"),
    // A flag that strace puts in for having none.
    ("AT_STATX_SYNC_AS_STAT|", "", "statx"),
    // It takes the nanoseconds of a time for unsigned; the kernel does not.
    ("tv_nsec=18446744073709551615", "tv_nsec=-1", "nanosleep"),
    // Newer ones say it so where both are the same.
    ("data=0x7", "data={u32=7, u64=7}", "epoll_ctl"),
    ("data=0x7", "data={u32=7, u64=7}", "epoll_wait"),
    // It says which day a time of a file is.
    (" /* 1970-01-01T00:00:01.000000002+0000 */", "", "utimensat"),
    (" /* 1970-01-01T00:00:01.000002+0000 */", "", "utimes"),
    (" /* 1970-01-01T00:00:03.000004+0000 */", "", "utimes"),
    // The kernel's header has another name for 0.
    ("SCHED_OTHER", "SCHED_NORMAL", "sched_getattr"),
    ("SCHED_OTHER", "SCHED_NORMAL", "sched_setattr"),
    // Two devices have a request of this number; it cannot say whose it is.
    ("SNDCTL_TMR_STOP or TCSETSW", "TCSETSW", "ioctl"),
    // 0 is none of them.
    ("propagation=0 /* MS_??? */", "propagation=0", "mount_setattr"),
    // Of a structure that is given and filled it shows what was given where the call fails.
    (
        "{flags=0, sq_thread_cpu=0, sq_thread_idle=0}",
        "@",
        "io_uring_setup",
    ),
];
/// Calls whose arguments and results differ from run to run: numbers of processes, times that went by.
const VARYING: &[&str] = &[
    "gettimeofday",
    "setitimer",
    "getrusage",
    "wait4",
    "waitid",
    "rt_sigqueueinfo",
    "sysinfo",
    "times",
    "getpid",
];
/// Calls whose arguments strace shows in another order than the kernel has them.
const REORDERED: &[&str] = &["clone"];

fn written(path: &'static str, bytes: &[u8]) -> &'static str {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn program() -> &'static str {
    written("/tmp/awkward_calls", PROGRAM)
}

/// The calls between the marks.
fn marked(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = lines.skip_while(|line| !line.contains(BEGIN)).collect();
    let end = all.iter().position(|line| line.contains(END)).unwrap();
    all.truncate(end + 1);
    all
}

/// strace's lines of one process, without what it says of signals.
fn theirs(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("---") && !line.starts_with("[ Process"));
    // It sets results in a column of their own.
    marked(lines.map(|line| match line.rsplit_once(" = ") {
        Some((call, result)) => format!("{} = {result}", call.trim_end()),
        None => line.to_owned(),
    }))
}

/// Our lines of the thread that makes the first mark, without time, thread, duration and names of arguments.
fn ours(text: &str) -> Vec<String> {
    let mark = text.lines().find(|line| line.contains(BEGIN)).unwrap();
    let thread = mark.split_whitespace().nth(1).unwrap();
    let (_, tid) = thread.rsplit_once('/').unwrap();
    let own = text.lines().filter_map(|line| {
        let (_, call) = line.split_once(&format!("/{tid} "))?;
        // strace is not asked for the files behind descriptors.
        let call = call.trim_start().replace("</dev/ptmx>", "");
        Some(without_names(
            call.rsplit_once(" <").map_or(call.as_str(), |(call, _)| call),
        ))
    });
    marked(own)
}

/// `call(name: value, …)` as `call(value, …)`.
fn without_names(line: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let mut chars = line.chars().peekable();
    let (mut quoted, mut escaped, mut begins) = (false, false, false);
    while let Some(c) = chars.next() {
        let is_name = begins && !quoted && (c.is_ascii_alphanumeric() || c == '_');
        if is_name {
            word.push(c);
            continue;
        }
        begins = begins && c == ' ' && word.is_empty();
        match (c, chars.peek()) {
            (':', Some(' ')) if !word.is_empty() && !quoted => {
                chars.next();
                word.clear();
                continue;
            }
            ('"', _) if !escaped => quoted = !quoted,
            ('(' | ',', _) if !quoted => begins = true,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        out.push_str(&word);
        word.clear();
        out.push(c);
    }
    out + &word
}

/// A line without what stands between `/*` and `*/`.
fn without_remarks(line: &str) -> String {
    let parts = line.split(" /*").enumerate();
    let parts = parts.map(|(at, part)| match part.split_once("*/") {
        Some((_, behind)) if at > 0 => behind,
        _ => part,
    });
    parts.collect()
}

/// A line with addresses, and numbers that are of one run, left out.
fn settled(line: &str) -> String {
    let call = line.split('(').next().unwrap_or_default();
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let digits = |text: &str, hex: bool| {
            text.find(|c: char| !(c.is_ascii_digit() || hex && c.is_ascii_hexdigit()))
                .unwrap_or(text.len())
        };
        match rest.strip_prefix("0x") {
            // The library's and the stack's; small ones are the program's own.
            Some(after) if digits(after, true) > 6 => {
                out.push('@');
                rest = &after[digits(after, true)..];
            }
            None if c.is_ascii_digit() && VARYING.contains(&call) => {
                out.push('#');
                rest = &rest[digits(rest, false)..];
            }
            _ => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// strace's lines of a program.
fn lines_of_strace(path: &str) -> Vec<String> {
    run("strace", &["-o", "/tmp/strace.txt", path]).success();
    let text = fs::read_to_string("/tmp/strace.txt").unwrap();
    fs::remove_file("/tmp/strace.txt").unwrap();
    theirs(&text)
}

/// The lines that differ, and no row says why.
fn differences(theirs: &[String], ours: &[String]) -> String {
    let names = |lines: &[String]| -> Vec<String> {
        let call = |line: &String| line.split('(').next().unwrap_or_default().to_owned();
        lines.iter().map(call).collect()
    };
    assert_eq!(names(theirs), names(ours));
    let mut different = String::new();
    for (theirs, ours) in theirs.iter().zip(ours) {
        let call = theirs.split('(').next().unwrap_or_default();
        if REORDERED.contains(&call) {
            continue;
        }
        let explained = DIFFERENCES.iter().filter(|(_, _, own)| *own == call);
        let explained = explained.fold(theirs.clone(), |line, (theirs, ours, _)| {
            line.replace(theirs, ours)
        });
        let explained = match call {
            // It says what ticks are in seconds.
            "times" => without_remarks(&explained),
            _ => explained,
        };
        if settled(&explained) != settled(ours) {
            different.push_str(&format!("strace:  {theirs}\nkestrel: {ours}\n"));
        }
    }
    different
}

#[test]
fn lines_are_straces() {
    let path = program();
    let theirs = lines_of_strace(path);
    assert!(theirs.len() > 100, "{}", theirs.len());
    let traced = kestrel(&["trace", "--syscalls", "--", path]);
    assert!(!traced.err.contains("lost"), "{}", traced.err);
    assert_eq!(differences(&theirs, &ours(&traced.success())), "");
}

#[test]
fn recordings_read_as_the_live_view_does() {
    let path = program();
    let theirs = lines_of_strace(path);
    run("strace", &["-f", "-c", "-o", "/tmp/counts.txt", path]).success();
    let counted = counts(&fs::read_to_string("/tmp/counts.txt").unwrap(), of_strace);
    let trace = "/tmp/calls.trace";
    let recorded = kestrel(&["record", "--syscalls", "-o", trace, "--", path]);
    assert!(recorded.err.contains("lost 0"), "{}", recorded.err);
    recorded.success();
    let printed = kestrel(&["print", trace]).success();
    assert_eq!(differences(&theirs, &ours(&printed)), "");
    let table = kestrel(&["report", "--syscalls", trace]).success();
    let mut own = counts(&table, of_strace);
    assert_eq!(own.remove("tgkill"), Some(1), "{table}");
    assert_eq!(counted, own, "{table}");
    // Files that were open before, and the command's own exec.
    let first = printed.lines().next().unwrap();
    assert!(
        first.contains("execve(filename: \"/tmp/awkward_calls\""),
        "{first}"
    );
    let some = kestrel(&["print", "--syscalls=%net", "--failed-only", trace]).success();
    assert!(
        some.contains("connect(fd: ") && !some.contains("socketpair(") && !some.contains("ioctl("),
        "{some}"
    );
    let records = kestrel(&["print", "--records", trace]).success();
    assert!(records.contains("raw_syscalls:sys_enter: id="), "{records}");
    fs::remove_dir_all(trace).unwrap();
}

#[test]
fn calls_of_32_bit_programs_have_their_own_names() {
    let path = written("/tmp/compat_calls", COMPAT);
    let theirs = lines_of_strace(path);
    let traced = kestrel(&["trace", "--syscalls", "--", path]);
    let text = traced.success();
    assert!(
        text.contains(
            " openat@32(dfd: AT_FDCWD, filename: \"/no/such\", flags: O_RDONLY|O_CLOEXEC) = -1 ENOENT"
        ),
        "{text}"
    );
    let marked = |line: &String| line.contains("@32(");
    let lines = ours(&text);
    assert_eq!(lines.iter().filter(|line| marked(line)).count(), 26, "{text}");
    let bare: Vec<String> = lines.iter().map(|line| line.replacen("@32(", "(", 1)).collect();
    assert_eq!(theirs.len(), bare.len(), "{text}");
    assert_eq!(differences(&theirs, &bare), "");
    let trace = "/tmp/compat.trace";
    kestrel(&["record", "--syscalls=open*", "-o", trace, "--", path]).success();
    let table = kestrel(&["report", "--syscalls", "--format", "json", trace]).success();
    let table: serde_json::Value = serde_json::from_str(&table).unwrap();
    let rows = table["syscalls"][0]["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["call"] == name).unwrap();
    assert_eq!(row("openat@32")["by_error"]["ENOENT"], 1, "{table}");
    assert_eq!(row("open@32")["errors"], 1, "{table}");
    fs::remove_dir_all(trace).unwrap();
}

#[test]
fn a_command_begins_with_its_own_exec() {
    let lines = kestrel(&["trace", "--syscalls", "--", program()]).success();
    let first = lines.lines().next().unwrap();
    assert!(
        first.contains("execve(filename: \"/tmp/awkward_calls\", argv: [\"/tmp/awkward_calls\"], envp: 0x"),
        "{first}"
    );
    assert!(first.contains(" vars */) = 0 <"), "{first}");
    assert!(!lines.contains("resumed>"), "{lines}");
}

/// Calls in a command's JSON: how many, and the names of those that have no frames of the kernel, and of those that have none of the process.
fn without_stacks(text: &str) -> (usize, Vec<String>, Vec<String>) {
    let objects = text.lines().filter(|line| line.starts_with('{'));
    let objects = objects.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let calls: Vec<_> = objects
        .filter(|it| it["call"].is_string() && !it["args"].is_null())
        .collect();
    let without = |stack: &str| {
        let has_none = |it: &&serde_json::Value| it[stack].as_array().is_none_or(|frames| frames.is_empty());
        let names = calls
            .iter()
            .filter(has_none)
            .map(|it| it["call"].as_str().unwrap());
        names.map(str::to_owned).collect()
    };
    (calls.len(), without("kstack"), without("ustack"))
}

#[test]
fn stacks_of_all_calls_are_recorded() {
    let path = program();
    let plain = ours(&kestrel(&["trace", "--syscalls", "--", path]).success());
    let check = |text: &str, start_has_stack: bool| {
        let (calls, kernel, mut user) = without_stacks(text);
        assert!(calls >= plain.len(), "{calls}");
        assert_eq!(kernel, [""; 0]);
        user.retain(|call| start_has_stack || (call != "readlinkat" && call != "readlink"));
        assert_eq!(user, [""; 0]);
    };
    // All calls take long to attach: one kind of stack is looked at live, the other recorded.
    let live = kestrel(&["trace", "--syscalls", "--format", "json", "-g", "--", path]);
    assert!(!live.err.contains("lost"), "{}", live.err);
    check(&live.success(), true);
    let trace = "/tmp/stacks.trace";
    let recorded = kestrel(&[
        "record",
        "--syscalls",
        "-o",
        trace,
        "--call-graph",
        "dwarf,1024",
        "--",
        path,
    ]);
    assert!(recorded.err.contains("lost 0"), "{}", recorded.err);
    recorded.success();
    // The C library's start asks for the program's place below all of the stack that was touched until then: there is no page to copy from.
    check(&kestrel(&["print", "--format", "json", trace]).success(), false);
    assert_eq!(ours(&kestrel(&["print", trace]).success()).len(), plain.len());
    fs::remove_dir_all(trace).unwrap();
}

/// Calls by name out of a table of strace -c's or perf trace -s's kind: `place` is the column of the count.
fn counts(table: &str, name: impl Fn(&[&str]) -> Option<(String, u64)>) -> BTreeMap<String, u64> {
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter_map(|words| name(&words)).collect()
}

fn of_strace(words: &[&str]) -> Option<(String, u64)> {
    match words {
        [_, _, _, calls, .., call] if *call != "total" => Some(((*call).to_owned(), calls.parse().ok()?)),
        _ => None,
    }
}

/// Rows of the table of the thread with most of them, of perf trace -s's kind: calls and errors by name.
fn of_busiest_thread(table: &str) -> BTreeMap<String, (u64, u64)> {
    let mut threads = vec![BTreeMap::new()];
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().ok();
        match words[..] {
            _ if line.contains(" (") && line.trim_end().ends_with('%') => threads.push(BTreeMap::new()),
            [call, calls, errors, _, ..] => {
                if let (Some(calls), Some(errors), Some(rows)) =
                    (number(calls), number(errors), threads.last_mut())
                {
                    rows.insert(call.to_owned(), (calls, errors));
                }
            }
            _ => {}
        }
    }
    threads.into_iter().max_by_key(BTreeMap::len).unwrap()
}

#[test]
fn tables_of_threads_are_perfs() {
    let path = program();
    run("perf", &["trace", "-s", "-o", "/tmp/perf.txt", path]).success();
    let theirs = of_busiest_thread(&fs::read_to_string("/tmp/perf.txt").unwrap());
    assert!(theirs.len() > 50, "{theirs:?}");
    let live = ["trace", "--syscalls", "--summary", "--by", "thread", "--", path];
    let live = kestrel(&live);
    assert_eq!(live.code, Some(0), "{}{}", live.out, live.err);
    let live = live.err;
    assert_eq!(theirs, of_busiest_thread(&live), "{live}");
    assert!(live.contains(" ENOENT: "), "{live}");
}

#[test]
fn tables_are_straces() {
    let path = program();
    run("strace", &["-f", "-c", "-o", "/tmp/counts.txt", path]).success();
    let theirs = counts(&fs::read_to_string("/tmp/counts.txt").unwrap(), of_strace);
    let live = kestrel(&["trace", "--syscalls", "--summary", "--", path]);
    assert_eq!(live.code, Some(0), "{}{}", live.out, live.err);
    // Its standard output is the command's.
    let live = live.err;
    let mut ours = counts(&live, of_strace);
    // Its thread was killed in it. strace counts what returns.
    assert_eq!(ours.remove("tgkill"), Some(1), "{live}");
    assert_eq!(theirs, ours, "{live}");
}

/// A call that hangs is seen at once, as strace shows it, and its return has the arguments.
#[test]
fn a_process_that_hangs_shows_the_call_it_is_in() {
    run("mkfifo", &["/tmp/hangs"]).success();
    let mut hanging = Command::new("cat")
        .arg("/tmp/hangs")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = hanging.id().to_string();
    let inside = || fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    until("cat in openat", || inside().starts_with("257 "));
    let trace = |format: &str, out: &str| {
        Command::new("kestrel")
            .args(["trace", "--syscalls=openat", "-p", &pid, "--format", format])
            .stdout(fs::File::create(out).unwrap())
            .stderr(fs::File::create("/tmp/hangs.err").unwrap())
            .spawn()
            .unwrap()
    };
    let mut text = trace("text", "/tmp/hangs.txt");
    let mut json = trace("json", "/tmp/hangs.json");
    let read = |path: &str| fs::read_to_string(path).unwrap();
    until("both", || {
        !read("/tmp/hangs.txt").is_empty() && !read("/tmp/hangs.json").is_empty()
    });
    let arguments = "dfd: AT_FDCWD, filename: \"/tmp/hangs\", flags: O_RDONLY";
    let line = read("/tmp/hangs.txt");
    assert!(
        line.trim_end().ends_with(&format!(
            "openat({arguments} <unfinished ...> (in progress since before the trace)"
        )),
        "{line}"
    );
    let object: serde_json::Value = serde_json::from_str(read("/tmp/hangs.json").trim_end()).unwrap();
    assert_eq!(
        (&object["call"], &object["end"], &object["ret"], &object["tid"]),
        (
            &"openat".into(),
            &"in progress".into(),
            &serde_json::Value::Null,
            &hanging.id().into()
        )
    );
    assert_eq!(object["args"][1]["text"], "\"/tmp/hangs\"");
    fs::write("/tmp/hangs", "more").unwrap();
    hanging.wait().unwrap();
    assert!(text.wait().unwrap().success() && json.wait().unwrap().success());
    let lines = read("/tmp/hangs.txt");
    assert!(
        lines.contains(&format!("<... openat resumed>{arguments}) = 3")),
        "{lines}"
    );
    assert_eq!(lines.matches("in progress").count(), 1, "{lines}");
    assert!(!read("/tmp/hangs.err").contains("none of the events"));
    fs::remove_file("/tmp/hangs").unwrap();
}
