//! The status line: only on a terminal, a few times a second, and gone before anything else is printed.

use crate::command::{WorkFolder, needs_tracing};
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Instant;
use testkit::terminal;

/// The end of every status line.
const END: &str = "; Ctrl-C ends";
/// The sequence that erases a line of the screen.
const ERASED: &str = "\r\x1b[2K";

/// The status lines that a command drew, with what it wrote besides.
fn drawn(command: Command, lines: usize) -> (Vec<String>, String) {
    let begun = Instant::now();
    let (status, printed) = terminal::run(command, 100, |printed| printed.matches(END).count() >= lines);
    assert!(status.success(), "{printed:?}");
    let most = 4 * (begun.elapsed().as_millis() as usize / 1000 + 1);
    let (mut shown, mut rest) = (Vec::new(), String::new());
    for part in printed.split(ERASED) {
        match part.trim_end().ends_with(END) {
            true => shown.push(part.trim_end().to_owned()),
            false => rest += part,
        }
    }
    assert!(!rest.contains(END), "a line was left on the screen: {printed:?}");
    assert!(
        shown.len() <= most,
        "{} in less than {most}: {printed:?}",
        shown.len()
    );
    (shown, rest)
}

#[test]
fn a_recording_shows_its_counts_so_far() {
    needs_tracing!();
    let place = WorkFolder::new();
    let command = place.command(&["record", "-e", "syscalls:sys_enter_*", "-o", "t"]);
    let (shown, rest) = drawn(command, 5);
    assert_eq!(shown.len(), 5, "{shown:?}");
    let figures = |line: &str| -> u64 {
        let (_, figures) = line.split_once(" s: ").unwrap();
        let (events, others) = figures.split_once(" event").unwrap();
        assert!(others.contains("lost 0") && others.contains("missed "), "{line}");
        events.replace(',', "").parse().unwrap()
    };
    let events: Vec<u64> = shown.iter().map(|line| figures(line)).collect();
    assert!(
        events.is_sorted() && shown[0].starts_with("recording "),
        "{shown:?}"
    );
    let all: u64 = rest
        .split(" event")
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap();
    assert!(all >= events[4], "{all} of {events:?}");
    // One of a page or two is more than what is in the pages in use.
    let json = place.run(&["print", "--format", "json", "t"]).succeeds().out;
    assert_eq!(json.lines().count() as u64, all);
}

#[test]
fn a_live_view_shows_it_where_its_lines_go_to_a_file() {
    needs_tracing!();
    let place = WorkFolder::new();
    for arguments in [
        &["trace", "-e", "sched:sched_switch"][..],
        &["trace", "--syscalls"],
        &["stat", "-e", "sched:sched_switch", "-a"],
    ] {
        let mut command = place.command(arguments);
        command.stdout(File::create(place.path().join("lines")).unwrap());
        let (shown, _) = drawn(command, 2);
        let doing = if arguments[0] == "stat" {
            "counting "
        } else {
            "tracing "
        };
        // Other tests may fill the ring meanwhile: lost events have lines of their own above the live one.
        let lines = shown.iter().flat_map(|lines| lines.split("\r\n"));
        let live: Vec<&str> = lines.filter(|line| !line.starts_with("lost ")).collect();
        assert!(!live.is_empty(), "{shown:?}");
        assert!(live.iter().all(|line| line.starts_with(doing)), "{shown:?}");
        assert!(fs::metadata(place.path().join("lines")).unwrap().len() > 0);
    }
}

#[test]
fn a_narrow_terminal_gets_one_line() {
    needs_tracing!();
    let command = WorkFolder::new();
    let command = command.command(&["record", "-e", "sched:sched_switch", "-o", "t"]);
    let (_, printed) = terminal::run(command, 30, |printed| printed.matches("recording ").count() >= 2);
    let first = printed.split(ERASED).next().unwrap();
    assert!(first.chars().count() <= 30, "{printed:?}");
}

#[test]
fn where_the_terminal_is_for_others_there_is_none() {
    needs_tracing!();
    let place = WorkFolder::new();
    let commands: [(&[&str], Stdio); 3] = [
        (
            &["record", "-e", "sched:sched_switch", "--", "sleep", "1"],
            Stdio::null(),
        ),
        (
            &[
                "trace",
                "-e",
                "sched:sched_switch /pid == 4000000000/",
                "--duration",
                "1",
            ],
            Stdio::piped(),
        ),
        (
            &["stat", "-e", "sched:sched_switch", "--", "sleep", "1"],
            Stdio::null(),
        ),
    ];
    for (arguments, out) in commands {
        let mut command = place.command(arguments);
        // Nothing comes, so that the pipe, which is not read, does not fill.
        command.stdout(out);
        let (status, printed) = terminal::run(command, 100, |_| false);
        assert!(status.success(), "{arguments:?}: {status}: {printed:?}");
        assert!(!printed.contains(END), "{arguments:?}: {printed:?}");
    }
    let recorded = place.run(&["record", "-e", "sched:sched_switch", "--duration", "1"]);
    assert!(!recorded.succeeds().err.contains(END));
}
