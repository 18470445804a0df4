//! System calls as people read them: what a program's arguments point to, line by line against strace of the same program in the same guest.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use vm_tests::{kestrel, run};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/awkward_calls"));
const BEGIN: &str = "\"/kestrel-begin\"";
const END: &str = "\"/kestrel-end\"";

/// What differs, in words of strace and of ours, and why.
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
];
/// Calls whose arguments and results differ from run to run: numbers of processes, times that went by.
const VARYING: &[&str] = &["gettimeofday", "setitimer", "getrusage", "wait4"];
/// Calls whose arguments strace shows in another order than the kernel has them.
const REORDERED: &[&str] = &["clone"];

fn program() -> &'static str {
    const PATH: &str = "/tmp/awkward_calls";
    fs::write(PATH, PROGRAM).unwrap();
    fs::set_permissions(PATH, Permissions::from_mode(0o755)).unwrap();
    PATH
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
    let lines = text.lines().filter(|line| !line.starts_with("---"));
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
        let call = call.trim_start();
        Some(without_names(
            call.rsplit_once(" <").map_or(call, |(call, _)| call),
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

#[test]
fn lines_are_straces() {
    let path = program();
    run("strace", &["-o", "/tmp/strace.txt", path]).success();
    let theirs = theirs(&fs::read_to_string("/tmp/strace.txt").unwrap());
    let traced = kestrel(&["trace", "--syscalls", "--", path]);
    assert!(!traced.err.contains("lost"), "{}", traced.err);
    let ours = ours(&traced.success());
    assert!(theirs.len() > 50, "{}", theirs.len());
    let names = |lines: &[String]| -> Vec<String> {
        let call = |line: &String| line.split('(').next().unwrap_or_default().to_owned();
        lines.iter().map(call).collect()
    };
    assert_eq!(names(&theirs), names(&ours));
    let mut different = String::new();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let call = theirs.split('(').next().unwrap_or_default();
        if REORDERED.contains(&call) {
            continue;
        }
        let explained = DIFFERENCES.iter().filter(|(_, _, own)| *own == call);
        let explained = explained.fold(theirs.clone(), |line, (theirs, ours, _)| {
            line.replace(theirs, ours)
        });
        if settled(&explained) != settled(ours) {
            different.push_str(&format!("strace:  {theirs}\nkestrel: {ours}\n"));
        }
    }
    assert_eq!(different, "");
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
