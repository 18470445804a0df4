//! `kestrel top` on a terminal, with keys and signals, and as batches: its counts are those of a program that makes a known number of calls.

use crate::command::{WorkFolder, needs_tracing};
use crate::counts::{EVENT, waiting_calls};
use std::io::Write;
use std::process::{Child, Command};
use testkit::terminal::{Console, Signal};

const CALLS: u64 = 54_321;

/// A program that waits to make its calls.
fn waiting() -> (Child, String) {
    let child = waiting_calls(CALLS).spawn().unwrap();
    let pid = child.id().to_string();
    (child, pid)
}

fn let_go(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
}

fn top(place: &WorkFolder, arguments: &[&str]) -> Command {
    place.command(&[&["top", "-I", "250ms"], arguments].concat())
}

/// The number in a column of the first line that begins with a word.
fn number(shown: &str, begin: &str, column: usize) -> Option<u64> {
    let line = shown.lines().find(|line| line.trim_start().starts_with(begin))?;
    let word = line.split_whitespace().nth(column)?;
    word.replace(',', "").parse().ok()
}

/// Whether an event's row has all calls, those that were missed counted as such.
fn has_all(shown: &str) -> bool {
    let total = number(shown, EVENT, 2).unwrap_or(0);
    total <= CALLS && total + number(shown, EVENT, 4).unwrap_or(0) >= CALLS
}

#[test]
fn the_view_has_every_call_leads_to_its_process_and_restores_the_terminal() {
    needs_tracing!();
    for (columns, lines) in [(80, 24), (200, 50)] {
        let place = WorkFolder::new();
        let (mut child, pid) = waiting();
        let mut console = Console::start(top(&place, &["-p", &pid, EVENT]), columns, lines);
        console.until(|shown| shown.contains("no event has come yet"));
        let_go(&mut child);
        let shown = console.until(has_all);
        assert!(
            shown.starts_with(&format!("kestrel top {EVENT}  every 0.25 s\n")),
            "{shown}"
        );
        assert!(
            shown.lines().last().unwrap_or_default().starts_with("q quit"),
            "{shown}"
        );
        let total = number(&shown, EVENT, 2);
        console.press("\r");
        let shown = console.until(|shown| shown.contains(&format!("events › {EVENT} by processes")));
        let row = shown
            .lines()
            .find(|line| line.split_whitespace().any(|word| word == pid));
        let row = row.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(
            number(row, "", row.split_whitespace().count() - 1),
            total,
            "{shown}"
        );
        console.press("/nobody\r");
        console.until(|shown| shown.contains("/nobody: 0 of 1"));
        console.press("\x1b");
        console.until(|shown| shown.contains(&pid));
        console.press("\r");
        let shown = console.until(|shown| shown.contains("by CPUs") && shown.contains("CPU  per second"));
        assert!(shown.contains(&format!("{EVENT}, process {pid}")), "{shown}");
        console.press("q");
        assert!(console.wait().success());
        assert!(console.is_given_back());
    }
}

#[test]
fn signals_end_or_stop_the_view_and_give_the_terminal_back() {
    needs_tracing!();
    let place = WorkFolder::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (mut child, pid) = waiting();
        let mut console = Console::start(top(&place, &["-p", &pid, EVENT]), 80, 24);
        console.until(|shown| shown.contains("q quit"));
        if signal == Signal::HUP {
            console.signal(Signal::TSTP);
            console.until_stopped();
            assert!(console.is_given_back(), "stopped");
            console.signal(Signal::CONT);
            console.until(|shown| shown.contains("q quit"));
        }
        console.signal(signal);
        assert!(console.wait().success(), "{signal:?}");
        assert!(console.is_given_back(), "{signal:?}");
        let_go(&mut child);
    }
}

#[test]
fn a_map_of_a_handler_is_drawn_as_its_histogram() {
    needs_tracing!();
    let place = WorkFolder::new();
    let (mut child, pid) = waiting();
    let event = format!("{EVENT} {{ @made[comm] = count(); @ones = lhist(1, 0, 4, 1) }}");
    let mut console = Console::start(top(&place, &["-p", &pid, "-e", &event]), 100, 30);
    console.until(|shown| shown.contains("no event has come yet"));
    let_go(&mut child);
    console.until(has_all);
    console.press("3");
    console.until(|shown| shown.contains("@made") && shown.contains("@ones"));
    console.press("/ones\r\r");
    let shown = console.until(|shown| shown.contains("maps › @ones"));
    let bar = shown.lines().find(|line| line.starts_with("[1]"));
    assert!(bar.is_some_and(|bar| bar.contains('@')), "{shown}");
    console.press("\x03");
    assert!(console.wait().success());
    assert!(console.is_given_back());
}

#[test]
fn without_a_terminal_it_prints_batches() {
    needs_tracing!();
    let place = WorkFolder::new();
    let (mut child, pid) = waiting();
    let mut command = top(&place, &["-n", "40", "--format", "json", "-p", &pid, EVENT]);
    let running = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let_go(&mut child);
    let printed = String::from_utf8(running.wait_with_output().unwrap().stdout).unwrap();
    let last: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(printed.lines().count(), 40);
    let total = last["events"][0]["total"].as_u64().unwrap_or(0);
    let missed = last["missed"].as_u64().unwrap_or(0);
    assert!(total <= CALLS, "{last}");
    // Those before the programs were attached are in no count.
    assert!(total + missed == CALLS || total < CALLS, "{last}");
    let (mut child, pid) = waiting();
    let text = place
        .run(&["top", "-n", "1", "-I", "50ms", "-p", &pid, EVENT])
        .succeeds();
    assert!(
        text.out.starts_with(&format!("kestrel top: {EVENT}, ")),
        "{}",
        text.out
    );
    assert!(text.out.contains("no event has come"), "{}", text.out);
    let_go(&mut child);
}

#[test]
fn processes_that_have_ended_make_room_for_others() {
    needs_tracing!();
    let place = WorkFolder::new();
    // Each process has a key for each event, far more in all than the 16,384 that there is room for.
    let events: Vec<String> = ([
        "mmap",
        "openat",
        "close",
        "newfstatat",
        "execve",
        "exit_group",
        "mprotect",
        "brk",
    ]
    .iter())
    .flat_map(|call| ["enter", "exit"].map(|end| format!("syscalls:sys_{end}_{call}")))
    .collect();
    let mut arguments = vec!["top", "-I", "100ms", "-n", "100000", "--format", "json"];
    arguments.extend(events.iter().map(String::as_str));
    let out = place.path().join("top.json");
    let mut running = place
        .command(&arguments)
        .stdout(std::fs::File::create(&out).unwrap())
        .spawn()
        .unwrap();
    let last = || -> Option<serde_json::Value> {
        let text = std::fs::read_to_string(&out).ok()?;
        serde_json::from_str(
            text.trim_end_matches('\n')
                .lines()
                .rev()
                .find(|line| line.ends_with('}'))?,
        )
        .ok()
    };
    let total = |reading: &serde_json::Value| {
        let events = reading["events"].as_array()?;
        let ended = events
            .iter()
            .find(|row| row["event"] == "syscalls:sys_enter_exit_group")?;
        ended["total"].as_u64()
    };
    while last().is_none() {
        std::thread::yield_now();
    }
    let before = last().as_ref().and_then(total).unwrap_or(0);
    let made = Command::new("sh")
        .args([
            "-c",
            "i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i + 1)); done",
        ])
        .status();
    assert!(made.unwrap().success());
    let whole = |reading: &serde_json::Value| {
        let missed = reading["missed"].as_u64().unwrap_or(0);
        total(reading).unwrap_or(0) + missed >= before + 1500
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !last().is_some_and(|reading| whole(&reading)) && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let reading = last().unwrap();
    assert!(whole(&reading) && reading["in_no_row"] == 0, "{reading}");
}

#[test]
fn wrong_options_are_refused_before_the_view_opens() {
    needs_tracing!();
    let place = WorkFolder::new();
    place.run(&["top", "nosuchsession"]).fails(1, &["nosuchsession"]);
    place.run(&["top", "sched:nosuch"]).fails(2, &["sched:nosuch"]);
    place
        .run(&["top", "sched:sched_switch", "web"])
        .fails(2, &["an event", "a session"]);
    place.run(&["top", "-I", "1000"]).fails(2, &["1000ms"]);
    place.run(&["top", "--", "ls"]).fails(2, &["-p NAME"]);
}
