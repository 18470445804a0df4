//! Small traces: every command reads what `record --compress` wrote.

use crate::counts::{EVENT, with_calls};
use crate::house::{WorkFolder, has, needs_tracing};
use std::process::Stdio;
use std::time::Duration;
use testkit::terminal::Signal;

#[test]
fn a_compressed_recording_has_every_event() {
    needs_tracing!();
    const N: u64 = 50_000;
    let place = WorkFolder::new();
    let command = place.command(&["record", "-e", EVENT, "--compress", "-o", "small"]);
    let output = with_calls(command, N).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let names = std::fs::read_dir(place.path().join("small")).unwrap();
    let names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().any(|name| name.ends_with(".packed")), "{names:?}");
    assert!(
        !names
            .iter()
            .any(|name| name.starts_with("main_") && !name.ends_with(".packed")),
        "{names:?}"
    );
    let report = place.run(&["report", "small", "--format", "json"]).succeeds();
    let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
    let lines = place.run(&["print", "small"]).succeeds().out.lines().count() as u64;
    let counted = report["records"].as_u64().unwrap();
    assert_eq!(lines, counted, "{told}");
    let complete = told.contains("lost 0") && told.contains("missed 0");
    assert!(lines == N || !complete && lines < N, "{lines}: {told}");
    let grouped = place
        .run(&["report", "small", "--by", "comm", "--format", "json"])
        .succeeds();
    assert!(
        grouped.out.contains(&format!("\"records\":{counted}")),
        "{}",
        grouped.out
    );
    // Its description serves where an image lacks one: the image here is none, but the trace was read.
    let image = place.run(&["recover", "small/metadata", "--metadata", "small"]);
    assert!(!image.err.contains("small is not"), "{}", image.err);
    // An uncompressed one takes its place.
    let command = place.command(&["record", "-e", EVENT, "-o", "small"]);
    assert!(with_calls(command, 10).output().unwrap().status.success());
    let left = std::fs::read_dir(place.path().join("small")).unwrap();
    let packed = left.filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .path()
            .extension()
            .is_some_and(|it| it == "packed")
    });
    assert_eq!(packed.count(), 0);
}

#[test]
fn a_part_is_a_recording_of_its_own() {
    needs_tracing!();
    let place = WorkFolder::new();
    let command = place.command(&["record", "-e", EVENT, "--compress", "-o", "all"]);
    assert!(with_calls(command, 5000).output().unwrap().status.success());
    let lines = |arguments: &[&str]| place.run(arguments).succeeds().out;
    let all = lines(&["print", "all"]);
    // From one call to another: where a window of times since the start stood, a busy machine had made no call.
    let time_of = |call: usize| {
        let mut words = all.lines().nth(call).unwrap().split(' ');
        format!("@{}", words.find(|word| word.ends_with(':')).unwrap())
    };
    let (from, to) = (time_of(1000), time_of(3000));
    let part = ["--from", &from, "--to", &to];
    place.run(&["cut", "all", "-o", "plain"]).succeeds();
    let cut = place.run(&["cut", "all", "-o", "part", part[0], part[1], part[2], part[3]]);
    // Of all, not of those in the packets that were read.
    let whole = all.lines().count();
    let of_all = format!(" of {},{:03} events", whole / 1000, whole % 1000);
    assert!(cut.succeeds().err.contains(&of_all), "{of_all}");
    assert_eq!(lines(&["print", "plain"]), all);
    let expected = lines(&["print", "all", part[0], part[1], part[2], part[3]]);
    assert_eq!(lines(&["print", "part"]), expected);
    assert!(
        (1900..2100).contains(&expected.lines().count()),
        "{part:?}: {expected}"
    );
    let answer = place.run(&["cut", "all", "-o", "none", "--from", "1000"]);
    answer.fails(1, &["none of the events in all is wanted"]);
    assert!(!place.path().join("none").exists() && !place.path().join(".none.new").exists());
    for words in [
        &["cut", "part", "-o", "./part"][..],
        &["merge", "all", "part", "-o", "part"],
        &["export", "--to", "ctf", "part", "-o", "part"],
    ] {
        place.run(words).fails(2, &["part is the input", "another name"]);
    }
    assert_eq!(lines(&["print", "part"]), expected);
    if has("babeltrace2") {
        let output = std::process::Command::new("babeltrace2")
            .arg(place.path().join("plain"))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let read = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(read, lines(&["print", "all"]).lines().count());
    }
}

#[test]
fn a_recording_ends_by_its_size() {
    needs_tracing!();
    let place = WorkFolder::new();
    let options = ["record", "-e", EVENT, "--buffer-size", "64K", "--max-size", "32K"];
    // More calls than anybody waits for: the size ends them.
    let output = with_calls(place.command(&options), 2_000_000_000)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("the size of --max-size"), "{told}");
    let size: u64 = (0..64)
        .filter_map(|cpu| std::fs::metadata(place.path().join(format!("kestrel.trace/main_{cpu}"))).ok())
        .map(|file| file.len())
        .sum();
    assert!(size >= 32 << 10, "{size}");
    place
        .run(&["record", "-e", EVENT, "--max-size", "1M", "--overwrite"])
        .fails(2, &["--overwrite"]);
}

#[test]
fn an_old_trace_is_kept_once() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = |calls| {
        let output = with_calls(place.command(&["record", "-e", EVENT, "-o", "mine"]), calls);
        let mut output = output;
        output.output().unwrap()
    };
    let count = |name: &str| place.run(&["print", name]).succeeds().out.lines().count();
    for calls in [100, 200, 300] {
        assert!(record(calls).status.success());
    }
    assert!(count("mine") > count("mine.old"), "the newest is the largest");
    assert!(count("mine.old") > 100);
    // What is no trace is not replaced, and then neither is the trace.
    let before = count("mine");
    std::fs::write(place.path().join("mine.old/thesis"), "").unwrap();
    let refused = record(10);
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("mine.old/thesis"), "{told}");
    assert_eq!(count("mine"), before);
}

#[test]
fn a_level_that_there_is_not() {
    let place = WorkFolder::new();
    for level in ["0", "20", "best"] {
        let option = format!("--compress={level}");
        place
            .run(&["record", "-e", EVENT, &option, "--", "true"])
            .fails(2, &["--compress"]);
    }
}

#[test]
fn habits_are_answered() {
    let place = WorkFolder::new();
    let top = place.run(&["top", "--help"]).succeeds();
    assert!(top.out.contains("kestrel top"), "{}", top.out);
    place.run(&["script"]).fails(2, &["kestrel print"]);
    let unknown = place.run(&["record", "--nosuch"]);
    assert!(!unknown.err.contains("-- --nosuch"), "{}", unknown.err);
    place
        .run(&["trace", "script.bt"])
        .fails(1, &["kestrel run script.bt"]);
    let help = place.run(&["help", "record"]).succeeds();
    assert!(help.out.contains("--compress"), "{}", help.out);
}

#[test]
fn an_interrupt_leaves_nothing_half_written() {
    let place = WorkFolder::new();
    testkit::recording::write(&place.path().join("all"), 40_000, None, 0);
    testkit::recording::write(&place.path().join("more"), 10, None, 0);
    std::fs::write(place.path().join("kept.data"), "kept").unwrap();
    for (words, output) in [
        (&["cut", "all", "-o", "part"][..], "part"),
        (&["merge", "all", "more", "-o", "part"], "part"),
        (&["export", "--to", "ctf", "all", "-o", "part"], "part"),
        (&["export", "--to", "parquet", "all", "-o", "part"], "part"),
        (
            &["export", "--to", "perf-data", "all", "-o", "kept.data"],
            "kept.data",
        ),
    ] {
        let mut command = place.command(words);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let begun = place.path().join(format!(".{output}.new"));
        while !begun.exists() {
            assert!(child.try_wait().unwrap().is_none(), "{words:?} ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        testkit::terminal::signal(&child, Signal::INT);
        let answer = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(
            answer.status.code() == Some(1) && said.contains("interrupted"),
            "{words:?}: {said}"
        );
        assert!(
            !begun.exists() && !place.path().join("part").exists(),
            "{words:?}"
        );
    }
    assert_eq!(
        std::fs::read_to_string(place.path().join("kept.data")).unwrap(),
        "kept"
    );
}
