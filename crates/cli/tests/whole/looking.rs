//! `kestrel report` on a terminal: what is on the screen, where keys lead, and that the terminal is given back.

use crate::command::WorkFolder;
use std::os::unix::process::ExitStatusExt as _;
use testkit::recording;
use testkit::terminal::{self, Console, Signal};

const ROUNDS: u64 = 1000;

fn recorded(level: Option<u8>) -> WorkFolder {
    let place = WorkFolder::new();
    recording::write(&place.path().join("a.trace"), ROUNDS, level, 3);
    place
}

#[test]
fn a_recording_is_looked_into_by_keys() {
    for level in [None, Some(3)] {
        let place = recorded(level);
        let mut screen = Console::start(place.command(&["report", "a.trace"]), 80, 24);
        let first = screen.until_there_is("sched:sched_waking");
        let head = first.lines().next().unwrap();
        assert!(
            head.starts_with("7,000 events in ") && head.contains("lost 3"),
            "{first}"
        );
        assert!(
            first.contains("a.trace") && first.contains('█') && first.contains("1Events"),
            "{first}"
        );
        // Processes, then one of them, then its events with a word, then its records.
        screen.press("2").until_there_is("server-200");
        screen.press("\r").until_there_is("> process server-200");
        screen.until(|shown| shown.starts_with("4,000 events"));
        screen.press("/waking\r").until_there_is("1 of 4 rows");
        screen.press("r").until_there_is("sched_waking: comm=reader");
        screen.press("\x1b[F").until_there_is("record 1,000 of 1,000");
        screen.press("\r").until_there_is("target_cpu");
        screen.press("\x1b").until(|shown| !shown.contains("target_cpu"));
        // Back to all records; then those of which something holds.
        screen
            .press("\x7f\x7f\x7f")
            .until(|shown| shown.starts_with("7,000 events"));
        screen.press("fret <").press("\r").until_there_is("^");
        screen
            .press(" 0\r")
            .until(|shown| shown.starts_with("100 events"));
        screen
            .press("\x7f")
            .until(|shown| shown.starts_with("7,000 events"));
        // Some of the time.
        screen.press("t").until_there_is("begins here");
        screen.press("\x1b[H").until_there_is("0 ns to ");
        screen.press(" \x1b[C\x1b[C\r").until_there_is("> 0.000000 to ");
        screen.press("\x7f5").until_there_is("do_syscall_64");
        screen.press("?").until_there_is("makes the function the root");
        screen
            .press("q")
            .until(|shown| !shown.contains("makes the function"));
        screen.press("q");
        let (status, left, given_back) = screen.end();
        assert!(status.success() && given_back, "{status} {left}");
        assert!(!left.contains("7,000 events"), "nothing is left there: {left}");
    }
}

#[test]
fn report_options_of_an_output_print_text_on_a_terminal() {
    let place = recorded(None);
    for options in [
        &["--plain"][..],
        &["--format", "text"],
        &["--also", "threads"],
        &["--by", "comm"],
        &["--call-graph=none"],
        &["--syscalls"],
    ] {
        let mut line = vec!["report", "a.trace"];
        line.extend(options);
        let screen = Console::start(place.command(&line), 100, 50);
        let (status, shown, _) = screen.end();
        assert!(status.success(), "{options:?}: {shown}");
        assert!(
            !shown.contains("1Events") && shown.lines().count() > 3,
            "{options:?}: {shown}"
        );
    }
    // And where it is no terminal.
    let answer = place.run(&["report", "a.trace"]).succeeds();
    assert!(answer.out.contains("over time"), "{}", answer.out);
}

#[test]
fn errors_are_reported_before_the_browser_opens() {
    let place = recorded(None);
    for (line, word) in [
        (&["report", "none.trace"][..], "none.trace"),
        (&["report", "a.trace", "--where", "nothing > 1"], "nothing"),
    ] {
        let screen = Console::start(place.command(line), 100, 24);
        let (status, shown, given_back) = screen.end();
        assert!(!status.success() && given_back && shown.contains(word), "{shown}");
    }
}

#[test]
fn a_signal_that_leaves_a_core_file_gives_the_terminal_back() {
    let place = recorded(None);
    let mut screen = Console::start(place.command(&["report", "a.trace"]), 80, 24);
    screen.until_there_is("sched:sched_waking");
    screen.signal(Signal::QUIT);
    assert_eq!(screen.wait().signal(), Some(Signal::QUIT.as_raw()));
    assert!(screen.is_given_back());
}

#[test]
fn a_closed_terminal_ends_the_view() {
    let place = recorded(None);
    let view = place.command(&["report", "a.trace"]);
    let status = terminal::closed(view, |written| written.contains("sched_waking"));
    // Without a panic, which has a code of its own.
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
}

#[test]
fn terminals_without_escape_sequences_get_plain_text() {
    let place = recorded(None);
    for kind in ["dumb", ""] {
        let mut command = place.command(&["report", "a.trace"]);
        command.env_remove("NO_COLOR");
        let (status, written) = terminal::plain(command, kind);
        assert!(
            status.success() && written.contains("sched:sched_waking"),
            "{written}"
        );
        assert!(!written.contains('\x1b'), "{kind:?}: {written:?}");
    }
}

#[test]
fn of_nothing_there_is_a_line() {
    let place = WorkFolder::new();
    recording::write(&place.path().join("a.trace"), 0, None, 0);
    let (status, shown, given_back) = Console::start(place.command(&["report", "a.trace"]), 100, 24).end();
    assert!(
        !status.success() && given_back && shown.contains("holds no events"),
        "{shown}"
    );
}
