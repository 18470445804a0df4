//! Marks: what user space writes to its device is an event, each write once and whole, in tables as any other; what is written elsewhere is none.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use vm_tests::recording::{Record, Recorder, record_command, records};
use vm_tests::{MARKS, kestrel, mark_calls, shell};

/// A session that ends with the test.
struct Session;

impl Session {
    fn start(text: &str) -> Self {
        std::fs::write("/tmp/marks.kst", text).unwrap();
        kestrel(&["start", "/tmp/marks.kst"]).success();
        Self
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ended = kestrel(&["stop"]);
    }
}

fn device() -> std::fs::File {
    std::fs::OpenOptions::new().write(true).open(MARKS).unwrap()
}

fn texts(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.text("text")).collect()
}

/// Whole numbers of `kestrel handler list --format json`, wherever they are: what `count()` counted, by event.
fn counted() -> BTreeMap<String, u64> {
    let json = kestrel(&["handler", "list", "--format", "json"]).success();
    let mut all = BTreeMap::new();
    for line in json.lines() {
        collect(&serde_json::from_str(line).unwrap(), &mut all);
    }
    all
}

fn collect(value: &Value, all: &mut BTreeMap<String, u64>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                match value.as_u64() {
                    Some(number) if name.starts_with("mark") => {
                        *all.entry(name.clone()).or_insert(0) += number
                    }
                    _ => collect(value, all),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, all)),
        _ => {}
    }
}

/// Writers of several kinds at once, and others who write to the null device itself: of the ones every write is recorded, of the others none.
#[test]
fn each_write_is_one_event_and_others_are_none() {
    let recorder = Recorder::start("marks", &["-a", "-e", "mark"]);
    let line = "
        (i=0; while [ $i -lt 3000 ]; do echo no; i=$((i+1)); done > /dev/null) &
        calls mark 2000 3 &
        (i=0; while [ $i -lt 500 ]; do echo shell $i > /dev/kestrel-mark; i=$((i+1)); done) &
        (i=0; while [ $i -lt 10 ]; do kestrel mark command number=$i; i=$((i+1)); done) &
        (i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done) | kestrel mark - from=lines &
        wait";
    shell(line).success();
    let (records, counts, printed) = recorder.stop();
    assert_eq!((counts.lost, counts.missed), (0, 0), "{printed}");
    let mut by = BTreeMap::new();
    for record in &records {
        assert_eq!(record.event, "mark", "{record:?}");
        let first = record.text("text").split(' ').next().unwrap();
        *by.entry(first.to_owned()).or_insert(0) += 1;
    }
    let expected = [("command", 10), ("line", 300), ("number", 6000), ("shell", 500)];
    assert_eq!(by, expected.map(|(name, count)| (name.to_owned(), count)).into());
    // Each number of each of the three threads is there, and none twice.
    let mut numbers: Vec<(u64, &str)> = records
        .iter()
        .filter(|record| record.text("text").starts_with("number "))
        .map(|record| (record.tid, record.text("text")))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 6000);
    let of_values = |values: &str| records.iter().filter(|r| r.text("values") == values).count();
    assert_eq!(of_values("from=lines"), 300);
    assert!((0..10).all(|number| of_values(&format!("number={number}")) == 1));
}

#[test]
fn marks_are_recorded_as_written_to_the_device() {
    let recorder = Recorder::start("texts", &["-a", "-e", "mark { record(args, comm) }"]);
    let long = "x".repeat(255);
    let longer = format!("{long}y");
    let written: &[(&[u8], &str)] = &[
        (b"plain", "plain"),
        (b"line\n", "line"),
        (b"two\nlines\n\n", "two\nlines\n"),
        (b"", ""),
        (b"\n", ""),
        (b"cut\0here", "cut"),
        (b"\x1b[31mred\x07\ttab", "\u{1b}[31mred\u{7}\ttab"),
        ("ä – ü".as_bytes(), "ä – ü"),
        (long.as_bytes(), &long),
        (longer.as_bytes(), &long),
    ];
    let device = device();
    for (bytes, _) in written {
        rustix::io::write(&device, bytes).unwrap();
    }
    // A position says where values begin; one that lies says nothing.
    device.write_at(b"text\0a=1 b=2", 5).unwrap();
    device.write_at(b"text\0a=1", 9).unwrap();
    device.write_at(b"text\0a=1", u64::MAX / 4).unwrap();
    device
        .write_at(format!("{longer}\0v={long}").as_bytes(), 257)
        .unwrap();
    shell("kestrel mark ''; kestrel mark 'a \"b\"' build=1234 'who=two words' empty=").success();
    let (records, counts, printed) = recorder.stop();
    assert_eq!(counts.lost, 0, "{printed}");
    let values: Vec<&str> = records.iter().map(|record| record.text("values")).collect();
    let cut = format!("v={}", &long[2..]);
    let of_values = [
        "a=1 b=2",
        "",
        "",
        &cut,
        "",
        "build=1234 who=\"two words\" empty=\"\"",
    ];
    let mut expected: Vec<&str> = written.iter().map(|(_, text)| *text).collect();
    expected.extend(["text", "text", "text", &long, "", "a \"b\""]);
    assert_eq!(texts(&records), expected);
    assert!(values[..written.len()].iter().all(|values| values.is_empty()));
    assert_eq!(values[written.len()..], of_values);
    let own = std::process::id();
    assert!(
        records[..written.len()]
            .iter()
            .all(|record| record.pid == u64::from(own))
    );
    assert_eq!(records.last().unwrap().text("comm"), "kestrel");
}

/// Control characters are shown on a terminal and not obeyed; JSON has them as its escapes.
#[test]
fn a_recorded_mark_is_shown() {
    let line = r"printf '\033[31mred\a\ntwo\n' > /dev/kestrel-mark; kestrel mark plain a=1 'b=two words'";
    let _none = std::fs::remove_dir_all("/tmp/shown");
    kestrel(&["record", "-o", "/tmp/shown", "-e", "mark", "--", "sh", "-c", line]).success();
    let lines = kestrel(&["print", "/tmp/shown"]).success();
    assert!(
        lines.contains(r"mark: text=\x1b[31mred\x07\x0atwo values="),
        "{lines}"
    );
    assert!(
        lines.contains(r#"mark: text=plain values=a=1 b="two words""#),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 2, "one event, one line: {lines}");
    let found = records("/tmp/shown");
    assert_eq!(texts(&found), ["\u{1b}[31mred\u{7}\ntwo", "plain"]);
    let report = kestrel(&["report", "/tmp/shown", "--field", "text"]).success();
    assert!(report.contains("plain") && report.contains("mark"), "{report}");
    assert!(!report.contains('\u{1b}'), "{report}");
    let live = kestrel(&["trace", "-e", "mark", "--", "sh", "-c", line]).success();
    assert!(live.contains(r"text=\x1b[31mred"), "{live}");
    std::fs::remove_dir_all("/tmp/shown").unwrap();
}

/// C libraries write a vector: what they had kept, and what came last.
#[test]
fn vectors_are_marks_too() {
    let recorder = Recorder::start("vectors", &["-a", "-e", "mark"]);
    let mut device = device();
    for parts in [
        &["one\n"][..],
        &["", "second\n"],
        &["kept", ""],
        &["first", "rest"],
    ] {
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part.as_bytes())).collect();
        let written = device.write_vectored(&parts).unwrap();
        assert_eq!(written, parts.iter().map(|part| part.len()).sum::<usize>());
    }
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
    let parts = [IoSlice::new(b"not"), IoSlice::new(b"this")];
    assert_eq!((&null).write_vectored(&parts).unwrap(), 7);
    let (records, counts, printed) = recorder.stop();
    assert_eq!(counts.lost, 0, "{printed}");
    assert_eq!(texts(&records), ["one", "second", "kept", "first"]);
    assert!(
        records.iter().all(|record| record.event == "mark:writev"),
        "{records:?}"
    );
}

#[test]
fn predicates_and_processes_choose() {
    let filter = "mark /str(args.text) == \"this\"/ { record(args.text, args.values, args.length) }";
    let line = "echo that > /dev/kestrel-mark; echo this > /dev/kestrel-mark; kestrel mark this a=1";
    let (found, counts) = record_command(&["-e", filter], &["sh", "-c", line]);
    assert_eq!(counts.lost, 0);
    assert_eq!(texts(&found), ["this", "this"]);
    assert_eq!(found[1].text("values"), "a=1");
    assert_eq!([found[0].number("length"), found[1].number("length")], [5, 8]);

    let pid = std::process::id().to_string();
    let recorder = Recorder::start("own", &["-p", &pid, "-e", "mark"]);
    shell("calls mark 50").success();
    mark_calls(20).unwrap();
    let (own, _, printed) = recorder.stop();
    assert_eq!(own.len(), 20, "{printed}");
    assert!(own.iter().all(|record| record.pid.to_string() == pid));
}

/// One table counts, the other records, and it is switched between them while marks come: each mark meets one of them.
#[test]
fn a_live_switch_loses_and_doubles_nothing() {
    let _session = Session::start(
        "buffer main { size = 1M }
         table one { mark { count() } }
         table two { class:user { record() } }",
    );
    let mut writer = Command::new("calls").args(["mark", "4000", "2"]).spawn().unwrap();
    for table in ["two", "one"].repeat(3) {
        kestrel(&["table", "use", table]).success();
    }
    writer.wait().unwrap();
    kestrel(&["table", "use", "two"]).success();
    mark_calls(10).unwrap();
    kestrel(&["buffer", "dump", "-o", "/tmp/switched.dump"]).success();
    let recorded = records("/tmp/switched.dump").len() as u64;
    let counted: u64 = counted().values().sum();
    assert_eq!(recorded + counted, 8010, "{recorded} recorded, {counted} counted");
    assert!(recorded >= 10);
    std::fs::remove_dir_all("/tmp/switched.dump").unwrap();
}

/// A mark is a trigger: it switches the table, and has the agent write a trace of what came before.
#[test]
fn a_mark_switches_and_dumps() {
    let _session = Session::start(
        "buffer main { size = 1M }
         table quiet {
           mark { record() }
           mark /str(args.text) == \"now\"/ { record(); use_table(\"close\"); dump(\"10s\", args.text, args.values) }
         }
         table close : quiet { syscalls:sys_enter_getppid { record() } }",
    );
    let active = || kestrel(&["table", "list"]).success();
    shell("calls mark 5; kestrel mark then; kestrel mark now why=test").success();
    assert!(active().contains("* close"), "{}", active());
    let agent = kestrel(&["agent", "--once", "--dumps", "/tmp/marked"]);
    assert_eq!(agent.code, Some(0), "{}", agent.err);
    let dump = records("/tmp/marked/main-000001");
    let marks: Vec<&Record> = dump.iter().filter(|record| record.event == "mark").collect();
    assert_eq!(marks.last().unwrap().text("text"), "now");
    assert_eq!(marks.last().unwrap().text("values"), "why=test");
    std::fs::remove_dir_all("/tmp/marked").unwrap();
}

/// Into a session that had no marks; through a resize; out again.
#[test]
fn a_table_with_marks_is_loaded_live() {
    let _session =
        Session::start("buffer main { size = 64K }  table one { sched:sched_process_exit { record() } }");
    let later = "table later { mark { record() } }";
    std::fs::write("/tmp/later.kst", later).unwrap();
    kestrel(&["table", "load", "/tmp/later.kst"]).success();
    kestrel(&["mark", "masked"]).success();
    kestrel(&["table", "use", "later"]).success();
    kestrel(&["mark", "first"]).success();
    kestrel(&["buffer", "resize", "main", "128K"]).success();
    kestrel(&["mark", "second"]).success();
    kestrel(&["buffer", "dump", "-o", "/tmp/live.dump"]).success();
    let dump = records("/tmp/live.dump");
    let marks: Vec<&str> = dump
        .iter()
        .filter(|r| r.event == "mark")
        .map(|r| r.text("text"))
        .collect();
    // The contents of the ring before are in the dump, too.
    assert_eq!(marks, ["first", "second"]);
    kestrel(&["table", "use", "one"]).success();
    kestrel(&["table", "unload", "later"]).success();
    kestrel(&["mark", "nobody listens now"]).success();
    std::fs::remove_dir_all("/tmp/live.dump").unwrap();
}

#[test]
fn a_file_in_the_mark_devices_place_is_refused_and_not_removed() {
    let _none = std::fs::remove_file(MARKS);
    let nobody = kestrel(&["mark", "x"]);
    assert_eq!(nobody.code, Some(1), "{}", nobody.err);
    assert!(nobody.err.contains("nobody listens"), "{}", nobody.err);
    std::fs::write(
        "/tmp/both.kst",
        "table one { class:user, sched:sched_process_exit { record() } }",
    )
    .unwrap();
    for (make, why) in [
        ("echo mine > /dev/kestrel-mark", "no character device"),
        ("ln -s /dev/null /dev/kestrel-mark", "symbolic link"),
        ("mknod /dev/kestrel-mark c 1 5", "another device"),
        (
            "mknod /dev/kestrel-mark c 1 3; chown 1000 /dev/kestrel-mark",
            "belong to root",
        ),
        ("mkdir /dev/kestrel-mark", "no character device"),
    ] {
        shell(make).success();
        let before = shell("stat -c '%F %i %u %a %Y' /dev/kestrel-mark").success();
        for command in [&["record", "-e", "mark", "--", "true"][..], &["mark", "x"]] {
            let run = kestrel(command);
            assert_eq!(run.code, Some(1), "{make}: {}", run.err);
            assert!(
                run.err.contains(why) && run.err.contains(MARKS),
                "{make}: {}",
                run.err
            );
        }
        // Where only a class asks for marks, the rest goes on, and it is said.
        let started = kestrel(&["start", "/tmp/both.kst"]);
        assert_eq!(started.code, Some(0), "{make}: {}", started.err);
        assert!(started.err.contains(why), "{make}: {}", started.err);
        kestrel(&["stop"]).success();
        assert_eq!(
            shell("stat -c '%F %i %u %a %Y' /dev/kestrel-mark").success(),
            before,
            "{make}"
        );
        shell("rm -rf /dev/kestrel-mark").success();
    }
    let wrong = kestrel(&["mark", "x", "novalue"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
}

#[test]
fn the_device_is_roots_until_root_opens_it() {
    let recorder = Recorder::start("others", &["-a", "-e", "mark { record(args.text, uid) }"]);
    assert_eq!(
        shell("stat -c '%a %u' /dev/kestrel-mark").success().trim(),
        "600 0"
    );
    let other = |arguments: &[&str]| {
        let run = Command::new("kestrel")
            .args(arguments)
            .uid(1000)
            .gid(1000)
            .output()
            .unwrap();
        (
            run.status.code(),
            String::from_utf8_lossy(&run.stderr).into_owned(),
        )
    };
    let (code, printed) = other(&["mark", "refused"]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("chgrp"), "{printed}");
    shell("chgrp 1000 /dev/kestrel-mark; chmod g+w /dev/kestrel-mark").success();
    let (code, printed) = other(&["mark", "let in"]);
    assert_eq!(code, Some(0), "{printed}");
    let (records, _, printed) = recorder.stop();
    assert_eq!(texts(&records), ["let in"], "{printed}");
    assert_eq!(records[0].number("uid"), 1000);
    std::fs::remove_file(MARKS).unwrap();
}

/// Named by itself and by its class it is one event, and shipped tables have it.
#[test]
fn it_is_listed_with_its_fields_and_class() {
    let listed = kestrel(&["list", "-v", "mark"]).success();
    assert_eq!(listed, "mark\n    string text\n    string values\n");
    let json = kestrel(&["list", "mark", "--format", "json"]).success();
    let json: Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(
        (json["event"].as_str(), json["kind"].as_str()),
        (Some("mark"), Some("mark"))
    );
    let classes = kestrel(&["list", "--classes", "-v", "user"]).success();
    assert!(
        classes.starts_with("class:user ") && classes.ends_with("    mark\n"),
        "{classes}"
    );
    for shipped in ["all", "flight", "before", "lkst"] {
        let shown = kestrel(&["table", "show", shipped]).success();
        assert!(
            shown.lines().any(|line| line.trim_start().starts_with("mark ")),
            "{shipped}: {shown}"
        );
    }
}
