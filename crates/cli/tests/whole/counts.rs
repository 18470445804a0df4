//! A program that makes an exactly known number of system calls: every one is in the trace, or counted as lost.

use crate::command::{WorkFolder, has, needs_tracing};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const EVENT: &str = "syscalls:sys_enter_getppid";
const CALLS: &str = "KESTREL_TEST_CALLS";

/// Not a test of its own: the traced program of the tests below, which run this very program with a number in the environment.
#[test]
fn traced_calls() {
    let Ok(calls) = std::env::var(CALLS) else { return };
    for _ in 0..calls.parse().unwrap() {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
}

/// Adds this program as the command to be traced.
pub(crate) fn with_calls(mut command: Command, calls: u64) -> Command {
    command.arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "counts::traced_calls", "--test-threads=1", "-q"]);
    command.env(CALLS, calls.to_string()).stdout(Stdio::null());
    command
}

/// This program as one that makes its calls when it gets a line on its standard input, under the number that it has from the start.
pub(crate) fn waiting_calls(calls: u64) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "read line; exec \"$@\"", "sh"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "counts::traced_calls", "--test-threads=1", "-q"]);
    command.env(CALLS, calls.to_string()).stdin(Stdio::piped());
    command.stdout(Stdio::null());
    command
}

/// Lines that babeltrace2 reads from a trace, which it must do without a word of complaint.
fn babeltrace_lines(trace: &Path) -> usize {
    let output = Command::new("babeltrace2").arg(trace).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn each_of_100_000_calls_is_recorded_ten_times_out_of_ten() {
    needs_tracing!();
    const N: u64 = 100_000;
    let babeltrace = has("babeltrace2");
    for run in 0..10 {
        let place = WorkFolder::new();
        let output = with_calls(place.command(&["record", "-e", EVENT]), N)
            .output()
            .unwrap();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{messages}");
        let (recorded, lost) = counted(&place);
        let missed = missed(&messages);
        assert!(
            lost == 0 && recorded <= N && recorded + missed >= N,
            "run {run}: {messages}"
        );
        if missed == 0 {
            assert!(
                messages.starts_with("100,000 events in ") && messages.contains("lost 0"),
                "run {run}: {messages}"
            );
        }
        let printed = place.run(&["print", "--format", "json"]).succeeds();
        assert_eq!(printed.out.lines().count() as u64, recorded, "run {run}");
        assert_eq!(printed.err, "", "run {run}");
        if babeltrace {
            assert_eq!(
                babeltrace_lines(&place.path().join("kestrel.trace")) as u64,
                recorded,
                "run {run}"
            );
        }
    }
}

#[test]
fn quiet_prints_losses_and_nothing_else() {
    needs_tracing!();
    let place = WorkFolder::new();
    let output_text = |arguments: &[&str], calls| {
        let output = with_calls(place.command(arguments), calls).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for arguments in [
        &["record", "-q", "-e", EVENT][..],
        &["record", "-q", "-e", "syscalls:sys_enter_acct"],
        &["trace", "-q", "-e", "syscalls:sys_enter_acct"],
    ] {
        let messages = output_text(arguments, 10);
        assert!(
            messages.is_empty() || missed(&messages) > 0,
            "{arguments:?}: {messages}"
        );
    }
    assert!(
        output_text(&["trace", "-e", "syscalls:sys_enter_acct"], 10)
            .contains("hint: none of the events came")
    );
    let figures = output_text(&["stat", "-q", "-e", EVENT], 10);
    assert!(figures.contains(EVENT), "{figures}");
    let both = place.run(&["record", "-q", "-v", "-e", EVENT]);
    assert_eq!(both.code, Some(2), "{}", both.err);
    // A ring of two pages, and ten times as many records: the losses are reported.
    let small = ["record", "-q", "-e", EVENT, "--buffer-size", "8K"];
    let lost = (0..5).any(|_| output_text(&small, 200_000).contains(" events in "));
    assert!(lost, "nothing was lost");
}

/// Recorded and lost, as `report` counts them.
fn counted(place: &WorkFolder) -> (u64, u64) {
    let report = place.run(&["report", "--format", "json"]).succeeds().out;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let rows = report["counted"].as_array().unwrap();
    let lost = rows.iter().map(|row| row["lost"].as_u64().unwrap()).sum();
    (report["records"].as_u64().unwrap(), lost)
}

/// Hits that the kernel says it missed, as kernels do where a program was preempted.
pub(crate) fn missed(messages: &str) -> u64 {
    let lines = messages.lines().filter(|line| line.contains(" missed"));
    let number = |line: &str| -> Option<u64> { line.split(' ').next()?.replace(',', "").parse().ok() };
    lines.filter_map(number).sum()
}

/// Whether it is a stream of a trace that holds something.
fn is_stream_with_pages(entry: std::io::Result<std::fs::DirEntry>) -> bool {
    entry.is_ok_and(|e| {
        e.file_name().to_string_lossy().starts_with("main_") && e.metadata().is_ok_and(|m| m.len() > 0)
    })
}

#[test]
fn losses_of_the_fastest_loop_are_counted_exactly() {
    needs_tracing!();
    reports_its_losses(false);
    // A recorder that does not read for a while loses, unless all was over before it was stopped.
    assert!((0..5).any(|_| reports_its_losses(true) > 0), "nothing was lost");
}

/// Records the fastest loop, and stops the recorder for a while if asked to. Gives what was lost.
fn reports_its_losses(stopped: bool) -> u64 {
    const N: u64 = 2_000_000;
    let place = WorkFolder::new();
    let arguments = ["record", "-e", EVENT, "--buffer-size", "1M"];
    let recorder = with_calls(place.command(&arguments), N)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if stopped {
        let pid = recorder.id().to_string();
        let signal = |name: &str| Command::new("kill").args([name, &pid]).status().unwrap();
        // Not before the first pages are written: attaching may take its time.
        let begun = || {
            std::fs::read_dir(place.path().join("kestrel.trace"))
                .is_ok_and(|mut d| d.any(is_stream_with_pages))
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !begun() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        signal("-STOP");
        std::thread::sleep(Duration::from_millis(400));
        signal("-CONT");
    }
    let output = recorder.wait_with_output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    let (recorded, lost) = counted(&place);
    let known = recorded + lost;
    assert!(known <= N && known + missed(&messages) >= N, "{messages}");
    let printed = place.run(&["print", "--format", "json"]).succeeds();
    assert_eq!(printed.out.lines().count() as u64, recorded);
    let (first, _) = messages.split_once('\n').unwrap();
    let digits: String = first
        .rsplit("lost ")
        .next()
        .unwrap()
        .chars()
        .take_while(|c| !c.is_whitespace())
        .filter(char::is_ascii_digit)
        .collect();
    assert_eq!(digits.parse::<u64>().unwrap(), lost, "{messages}");
    lost
}
