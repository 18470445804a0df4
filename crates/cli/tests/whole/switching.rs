//! Recordings in several directories: every call is in exactly one of them, or counted as lost.

use crate::command::{WorkFolder, needs_tracing};
use crate::counts::{EVENT, with_calls};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The directories of a recording called `base`, in order.
fn directories(place: &Path, base: &str) -> Vec<String> {
    let names = std::fs::read_dir(place).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut all: Vec<String> = names
        .filter(|name| name.starts_with(&format!("{base}.")))
        .collect();
    all.sort();
    all
}

/// The number before a word in the line about all directories.
fn number(messages: &str, before: &str) -> u64 {
    let line = messages
        .lines()
        .find(|line| line.contains(" directories in all"))
        .expect(messages);
    let digits = |text: &str| text.trim_matches(',').replace(',', "").parse().unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    match before {
        "events" => digits(words[0]),
        name => digits(words[words.iter().position(|word| *word == name).unwrap() + 1]),
    }
}

/// Lines printed of each directory, after asserting that each is a whole recording.
fn lines(place: &WorkFolder, names: &[String]) -> Vec<u64> {
    let lines = |name: &String| {
        let printed = place.run(&["print", name]);
        if printed.err.contains("holds no events") {
            return 0;
        }
        let printed = printed.succeeds();
        // A busy machine may lose some, which is said; nothing else is.
        assert!(
            printed.err.lines().all(|line| line.starts_with("lost ")),
            "{name}: {}",
            printed.err
        );
        let report = place.run(&["report", name, "--format", "json"]).succeeds();
        let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
        let printed = printed.out.lines().count() as u64;
        assert_eq!(report["records"].as_u64().unwrap_or(0), printed, "{name}");
        printed
    };
    names.iter().map(lines).collect()
}

#[test]
fn each_call_is_in_one_directory_of_many() {
    needs_tracing!();
    const N: u64 = 100_000;
    // Of compressed pages a block is some kilobytes.
    for how in [&["--switch-output=40K"][..], &["--rotate", "4K", "--compress"]] {
        let place = WorkFolder::new();
        let mut arguments = vec!["record", "-e", EVENT, "-o", "all"];
        arguments.extend(how);
        let output = with_calls(place.command(&arguments), N).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{messages}");
        let names = directories(place.path(), "all");
        // A size is exceeded by what the rings hold, so that how many there are depends on the machine.
        assert!(names.len() > 1, "{messages}");
        let counted = lines(&place, &names);
        let recorded: u64 = counted.iter().sum();
        assert_eq!(recorded, number(&messages, "events"), "{messages}");
        let (lost, missed) = (number(&messages, "lost"), number(&messages, "missed"));
        assert!(
            recorded + lost <= N && recorded + lost + missed >= N,
            "{messages}"
        );
        // Together they are one recording again.
        let mut parts: Vec<&str> = vec!["merge", "-o", "whole"];
        parts.extend(names.iter().map(String::as_str));
        place.run(&parts).succeeds();
        let all = |name: &str| {
            let printed = place.run(&["print", name, "--time", "mono"]).out;
            printed.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let mut split_lines: Vec<String> = names.iter().flat_map(|name| all(name)).collect();
        let mut whole = all("whole");
        split_lines.sort();
        whole.sort();
        assert!(split_lines == whole, "{} {}", split_lines.len(), whole.len());
        // Threads have their names in each: that of this program. A switch at the end leaves a directory without events.
        let last = counted.iter().rposition(|lines| *lines > 0).unwrap();
        let threads = place.run(&["report", &names[last], "--by", "comm"]).succeeds();
        assert!(threads.out.contains("traced"), "{}", threads.out);
    }
}

#[test]
fn a_signal_switches_and_the_oldest_goes() {
    needs_tracing!();
    const N: u64 = 400_000;
    let place = WorkFolder::new();
    let arguments = [
        "record",
        "-e",
        EVENT,
        "--switch-output",
        "--switch-max-files",
        "2",
    ];
    let mut command = with_calls(place.command(&arguments), N);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let signalled = child.id().to_string();
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    let mut switched = 0;
    while !waiting.is_finished() {
        // Where there is a directory the signal is watched for.
        if !directories(place.path(), "kestrel.trace").is_empty() {
            _ = Command::new("kill")
                .args(["-USR2", &signalled])
                .stderr(Stdio::null())
                .status();
            switched += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = waiting.join().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    let names = directories(place.path(), "kestrel.trace");
    // Where the machine was so busy that no signal came through before the end there is one directory alone.
    assert!(switched < 2 || names.len() == 2, "{names:?} {messages}");
    if names.len() == 2 {
        let all = number(&messages, "events");
        let (lost, missed) = (number(&messages, "lost"), number(&messages, "missed"));
        assert!(all + lost <= N && all + lost + missed >= N, "{messages}");
        assert!(lines(&place, &names).iter().sum::<u64>() <= all, "{messages}");
    }
}

#[test]
fn wrong_switch_output_options_are_refused() {
    let place = WorkFolder::new();
    let refused = |arguments: &[&str], word: &str| {
        let mut all = vec!["record", "-e", EVENT];
        all.extend(arguments);
        all.extend(["--", "true"]);
        place.run(&all).fails(2, &[word]);
    };
    refused(&["--switch-output=100"], "no unit");
    refused(&["--switch-output=0M"], "0 bytes");
    refused(&["--rotate", "3w"], "s, m, h or d");
    refused(&["--switch-max-files", "3"], "--switch-output=1G");
    refused(&["--switch-output=1M", "--overwrite"], "--overwrite");
    refused(&["--switch-output=1M", "--rotate", "1h"], "--rotate");
}
