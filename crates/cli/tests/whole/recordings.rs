//! Recordings and files made of them: limits of their size, traces that they replace, files left by an interrupt.

use crate::command::{WorkFolder, needs_tracing};
use crate::counts::{EVENT, with_calls};
use std::process::Stdio;
use std::time::Duration;
use testkit::terminal::Signal;

#[test]
fn a_recording_ends_by_its_size() {
    needs_tracing!();
    let place = WorkFolder::new();
    let options = ["record", "-e", EVENT, "--buffer-size", "64K", "--max-size", "32K"];
    // More calls than fit into the size, which ends the recording.
    let output = with_calls(place.command(&options), 2_000_000_000)
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    assert!(messages.contains("the size of --max-size"), "{messages}");
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
    // A file that is no trace is not replaced, and then neither is the trace.
    let before = count("mine");
    std::fs::write(place.path().join("mine.old/thesis"), "").unwrap();
    let refused = record(10);
    assert_eq!(refused.status.code(), Some(1));
    let messages = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(messages.contains("mine.old/thesis"), "{messages}");
    assert_eq!(count("mine"), before);
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
        let printed = String::from_utf8_lossy(&answer.stderr);
        assert!(
            answer.status.code() == Some(1) && printed.contains("interrupted"),
            "{words:?}: {printed}"
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
