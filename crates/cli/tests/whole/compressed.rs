//! Compressed recordings (`record --compress`): every command reads them.

use crate::command::{WorkFolder, has, needs_tracing};
use crate::counts::{EVENT, with_calls};

#[test]
fn a_compressed_recording_has_every_event() {
    needs_tracing!();
    const N: u64 = 50_000;
    let place = WorkFolder::new();
    let command = place.command(&["record", "-e", EVENT, "--compress", "-o", "small"]);
    let output = with_calls(command, N).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
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
    assert_eq!(lines, counted, "{messages}");
    let behind = |word: &str| -> u64 {
        let (_, rest) = messages.split_once(word).unwrap();
        let digits = rest.split([',', '\n', ';']).next().unwrap();
        digits.trim().parse().unwrap()
    };
    assert_eq!(lines + behind("lost ") + behind("missed "), N, "{messages}");
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
    image.fails(1, &["no session is in small/metadata"]);
    let no_trace = place.run(&["recover", "small/metadata", "--metadata", "."]);
    no_trace.fails(1, &["metadata"]);
    assert!(!no_trace.err.contains("no session is in"), "{}", no_trace.err);
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
fn levels_of_compression_are_1_to_19() {
    let place = WorkFolder::new();
    for level in ["0", "20", "best"] {
        let option = format!("--compress={level}");
        place
            .run(&["record", "-e", EVENT, &option, "--", "true"])
            .fails(2, &["--compress"]);
    }
}
