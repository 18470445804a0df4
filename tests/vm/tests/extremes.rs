//! Sessions at their limits: no memory, bpffs that takes nothing, hundreds of tables, a state of another version, many reloads, two at once.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::agent::{Answer, Inbox};
use kestrel::catalog::{Catalog, Via};
use kestrel::kernel::Host;
use kestrel::kernel::bpf::{pin, unpin};
use kestrel::plan::{Options, Source, plan};
use kestrel::session::start::Origin;
use kestrel::session::store::Store;
use kestrel::table::TableFile;
use kestrel_trace::record::Record;
use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;
use vm_tests::{kestrel, number_in, shell, skip, table_file};

fn store() -> Store {
    Store::open(&Host::default()).unwrap()
}

fn start(name: &str, text: &str, catalog: &Catalog) {
    let file = TableFile::parse(text, name).unwrap();
    let how = Options {
        persistent: true,
        messages: true,
        ..Options::default()
    };
    let plan = plan(Source::File(&file), &how, catalog).unwrap();
    store()
        .start(name, plan, catalog, None, Origin::default())
        .unwrap();
}

/// Records written to each buffer of a session so far, overwritten ones included, and hits that the kernel missed.
fn recorded(name: &str) -> (Vec<u64>, u64) {
    let session = store().session(Some(name)).unwrap();
    let buffers = session.status(None).unwrap().buffers;
    let each = buffers.iter().map(|b| b.sum(|ring| ring.recorded)).collect();
    (each, session.missed().unwrap())
}

/// Asserts that the first buffer of a session got the records of all hits, but for those that the kernel missed: `Counts::explain` says why they are a bound.
fn assert_recorded(name: &str, happened: u64, when: &str) {
    let (each, missed) = recorded(name);
    assert!(
        each[0] <= happened && each[0] + missed >= happened,
        "{each:?} recorded, {missed} missed of {happened} {when}"
    );
}

fn nothing_is_left() {
    assert!(!Path::new("/sys/fs/bpf/kestrel").exists(), "pins are left");
    assert!(!Path::new("/run/kestrel").exists(), "locks are left");
}

const CALLS: &str = r#"
buffer one { size = 64k }
table a { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid) } }
table b { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, tid) } }
"#;

#[test]
fn a_session_of_another_version_does_not_hide_the_others() {
    let catalog = Catalog::new(Host::default());
    for name in ["old", "right", "young"] {
        start(name, CALLS, &catalog);
    }
    let mut state = store().session(Some("old")).unwrap().state().clone();
    state.version += 5;
    state.tracer = "9.9".to_owned();
    let path = Path::new("/sys/fs/bpf/kestrel/old/state");
    unpin(path).unwrap();
    pin(state.to_map().unwrap().as_fd(), path).unwrap();
    let all = kestrel(&["status", "--interval", "0"]);
    assert_eq!(all.code, Some(1));
    assert!(
        all.out.contains("session right") && all.out.contains("session young"),
        "{}",
        all.out
    );
    assert!(
        all.err.contains("cannot read the session old") && all.err.contains("9.9"),
        "{}",
        all.err
    );
    let json = kestrel(&["status", "--interval", "0", "--format", "json"]);
    assert_eq!(json.out.lines().count(), 3, "{}", json.out);
    assert!(
        json.out.lines().next().unwrap().contains("\"error\""),
        "{}",
        json.out
    );
    let one = kestrel(&["status", "old"]);
    assert!(one.code == Some(1) && one.out.is_empty(), "{}", one.err);
    for name in ["old", "right", "young"] {
        kestrel(&["stop", name]).success();
    }
    nothing_is_left();
}

/// 2,000 on request: `KESTREL_RELOADS`.
#[test]
fn tables_that_come_again_use_no_new_numbers() {
    let catalog = Catalog::new(Host::default());
    start("reloaded", CALLS, &catalog);
    let text = r#"table c {
        syscalls:sys_enter_getppid /comm == "calls"/ { notify("here"); record(tid) }
        syscalls:sys_enter_getuid { count() }
        kprobe:vfs_open, kprobe:vfs_read { exec("true"); count() }
    }"#;
    let file = TableFile::parse(text, &table_file("again", text)).unwrap();
    let names = ["c".to_owned()];
    let mut next = 0;
    let rounds = number_in("KESTREL_RELOADS", 6);
    for round in 0..rounds {
        let mut change = store().change(None).unwrap();
        change.load(&file, &names, &catalog, Via::Auto).unwrap();
        if round == 0 {
            next = change.state().next_record;
        }
        assert_eq!(change.state().next_record, next, "round {round}");
        if round + 1 < rounds {
            change.unload("c").unwrap();
        }
    }
    // Messages that wait when their table goes are not forgotten.
    kestrel(&["table", "use", "c"]).success();
    shell("calls getppid 30").success();
    kestrel(&["table", "use", "a"]).success();
    kestrel(&["table", "unload", "c"]).success();
    let session = store().session(None).unwrap();
    let mut inbox = Inbox::open(&session).unwrap();
    let mut heard = 0;
    let mut hear = |action: &kestrel_trace::action::Action, _: &Record<'_>| {
        heard += u64::from((&*action.verb, &*action.text) == ("notify", "here"));
        Ok(Answer::Done)
    };
    inbox.poll(&mut hear).unwrap();
    assert!(
        heard == 30 || session.missed().unwrap() > 0 && heard > 0,
        "{heard}"
    );
    store().stop(None).unwrap();
    nothing_is_left();
}

#[test]
fn without_memory_there_is_the_old_or_the_new() {
    let group = "/sys/fs/cgroup/tight";
    let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
    fs::create_dir_all(group).unwrap();
    if !Path::new(&format!("{group}/memory.max")).exists() {
        return skip("this kernel has no memory control group");
    }
    let file = table_file("tight", CALLS);
    let third = table_file(
        "third",
        r#"table c { syscalls:sys_enter_getppid { record(comm, kstack) } sched:sched_wakeup { record() } }"#,
    );
    let within = |kilobytes: u64, line: &str| {
        fs::write(format!("{group}/memory.max"), format!("{}", kilobytes << 10)).unwrap();
        shell(&format!("echo $$ > {group}/cgroup.procs; exec kestrel {line}"))
    };
    let mut answers = Vec::new();
    for kilobytes in [
        1 << 10,
        3 << 10,
        5 << 10,
        7 << 10,
        9 << 10,
        12 << 10,
        16 << 10,
        128 << 10,
    ] {
        let run = within(kilobytes, &format!("start tight {file}"));
        let started = run.code == Some(0);
        answers.push((kilobytes >> 10, run.code));
        if let Some(code) = run.code.filter(|code| *code != 0) {
            assert!(run.err.contains("memory"), "{code}: {}", run.err);
        }
        // Whether it ended or was ended, the next command finds all of it or nothing.
        let status = kestrel(&["status", "--interval", "0"]);
        assert_eq!(
            status.code,
            Some(i32::from(!started)),
            "{} {}",
            status.out,
            status.err
        );
        if started {
            kestrel(&["stop", "tight"]).success();
        }
        nothing_is_left();
    }
    println!("start: {answers:?}");
    assert_eq!(answers.last().unwrap().1, Some(0), "with memory it works");
    assert_ne!(answers[0].1, Some(0), "without it does not");
    kestrel(&["start", "tight", &file]).success();
    let (mut answers, mut happened) = (Vec::new(), 0);
    for (kilobytes, line) in [
        (3 << 10, format!("table load {third}")),
        (6 << 10, format!("table load {third}")),
        (4 << 10, "buffer resize one 1M".to_owned()),
        (8 << 10, "buffer resize one 1M".to_owned()),
        (2 << 10, "table use b".to_owned()),
        (128 << 10, "buffer resize one 256K".to_owned()),
        (128 << 10, format!("table load {third}")),
    ] {
        let run = within(kilobytes, &line);
        answers.push((kilobytes >> 10, line, run.code));
        shell("calls getppid 20").success();
        happened += 20;
        assert_recorded("tight", happened, &format!("after {answers:?}"));
    }
    println!("{answers:?}");
    assert!(
        answers.iter().rev().take(2).all(|answer| answer.2 == Some(0)),
        "{answers:?}"
    );
    kestrel(&["stop", "tight"]).success();
    nothing_is_left();
    fs::remove_dir(group).unwrap();
}

#[test]
fn bpffs_that_takes_nothing_changes_nothing() {
    let file = table_file("sealed", CALLS);
    let third = table_file(
        "third",
        r#"table c { syscalls:sys_enter_getppid { record(comm) } sched:sched_wakeup { record() } }"#,
    );
    let sealed = |words: &[&str]| {
        shell("mount -o remount,ro /sys/fs/bpf").success();
        let run = kestrel(words);
        shell("mount -o remount,rw /sys/fs/bpf").success();
        (run.code, run.err)
    };
    let (code, err) = sealed(&["start", "sealed", &file]);
    assert!(code != Some(0) && err.contains("/sys/fs/bpf"), "{err}");
    nothing_is_left();
    kestrel(&["start", "sealed", &file]).success();
    let before = store().session(None).unwrap().state().clone();
    for words in [
        &["table", "load", third.as_str()][..],
        &["table", "unload", "b"],
        &["buffer", "resize", "one", "1M"],
        &["stop"],
    ] {
        let (code, err) = sealed(words);
        assert!(code.is_some_and(|code| code > 0), "{words:?}: {code:?} {err}");
        assert!(err.contains("/sys/fs/bpf"), "{words:?}: {err}");
        assert_eq!(*store().session(None).unwrap().state(), before, "{words:?}");
    }
    shell("calls getppid 50").success();
    assert_recorded("sealed", 50, "with bpffs read-only");
    kestrel(&["table", "load", &third]).success();
    kestrel(&["stop"]).success();
    nothing_is_left();
}

#[test]
fn two_hundred_tables_and_a_hundred_more() {
    let catalog = Catalog::new(Host::default());
    let mut text = "buffer one { size = 64k }\n".to_owned();
    let mut more = String::new();
    for table in 0..200 {
        let row = format!(
            "syscalls:sys_enter_getppid /comm == \"calls\"/ {{ record(number = {}) }}",
            table % 8
        );
        let _ = writeln!(
            text,
            "table t{table} {{ {row} sched:sched_switch {{ @s[{}] = count() }} }}",
            table % 5
        );
    }
    let loads = number_in("KESTREL_LOADS", 70);
    for table in 0..loads {
        let row = format!("syscalls:sys_enter_getppid /comm == \"calls\"/ {{ record(more = {table}) }}");
        let _ = writeln!(more, "table m{table} {{ {row} }}");
    }
    start("many", &text, &catalog);
    let mut happened = 0;
    let mut meet = |name: &str| {
        store().change(None).unwrap().use_table(name).unwrap();
        shell("calls getppid 10").success();
        happened += 10;
        assert_recorded("many", happened, &format!("with {name}"));
    };
    for table in [0, 1, 63, 64, 100, 199] {
        meet(&format!("t{table}"));
    }
    let file = TableFile::parse(&more, "more").unwrap();
    let names: Vec<String> = file.table_names().map(str::to_owned).collect();
    let mut change = store().change(None).unwrap();
    change.load(&file, &names, &catalog, Via::Auto).unwrap();
    drop(change);
    for name in ["m0".to_owned(), format!("m{}", loads - 1), "t7".to_owned()] {
        meet(&name);
    }
    let mut change = store().change(None).unwrap();
    change.resize("one", 128 << 10, &catalog).unwrap();
    drop(change);
    meet("t150");
    meet(&format!("m{}", loads / 2));
    store().stop(None).unwrap();
    nothing_is_left();
}

/// A session that was started with little room for kinds of record takes tables with many: its buffers get more, and no event is lost.
#[test]
fn a_small_session_takes_large_tables() {
    let catalog = Catalog::new(Host::default());
    start("small", CALLS, &catalog);
    shell("calls getppid 20").success();
    let large = r#"
table c { syscalls:* /comm == "nothing"/ { record(tid) } }
table d { syscalls:* /comm == "nothing"/ { record(pid) } }
"#;
    let file = table_file("large", large);
    kestrel(&["table", "load", &file]).success();
    let session = store().session(None).unwrap();
    let room = session.state().buffers[0].events;
    assert!(room > 1024 && session.state().next_record > 1024, "{room}");
    assert!(session.state().buffers[0].resized == 1, "once");
    shell("calls getppid 20").success();
    kestrel(&["table", "use", "d"]).success();
    kestrel(&["table", "use", "b"]).success();
    shell("calls getppid 20").success();
    assert_recorded("small", 60, "with three tables");
    let (each, _) = recorded("small");
    kestrel(&["buffer", "dump", "-o", "/tmp/small.dump"]).success();
    let held = vm_tests::recording::records("/tmp/small.dump").len() as u64;
    assert_eq!(held, each[0]);
    store().stop(None).unwrap();
    nothing_is_left();
}

/// Stacks of hundreds of events, for a session that was started for one, whose stream has not been read.
#[test]
fn stacks_of_many_events_come_into_a_small_session() {
    let small = r#"
buffer one { size = 8M }
buffer read { size = 64K mode = stream }
table main { sched:sched_process_exec { record(); record(pid, to("read")); notify("it ran") } }
"#;
    kestrel(&["start", "tiny", &table_file("tiny", small)]).success();
    shell("calls getppid 1").success();
    // Two of them: together more kinds of record than the session's buffers have room for.
    let row = "syscalls:*, sched:*, irq:*, task:*, signal:* /comm == \"calls\"/";
    let all = format!(
        "table users {{ {row} {{ record(ustack) }} }} table stacks {{ {row} {{ record(args, kstack, ustack) }} }}"
    );
    kestrel(&["table", "load", &table_file("stacks", &all)]).success();
    let session = store().session(None).unwrap();
    let (room, next) = (session.state().buffers[0].events, session.state().next_record);
    assert!(room >= next && next > 1024, "room for {room}, {next} in use");
    kestrel(&["table", "use", "stacks"]).success();
    shell("calls getppid 50").success();
    kestrel(&["buffer", "freeze"]).success();
    kestrel(&["table", "use", "main"]).success();
    kestrel(&["buffer", "dump", "--buffer", "one", "-o", "/tmp/stacks.dump"]).success();
    let (written, missed) = recorded("tiny");
    let held = vm_tests::recording::records("/tmp/stacks.dump");
    let stack = |record: &&vm_tests::recording::Record, name: &str| {
        let stack = record.fields.get(name).and_then(|stack| stack.as_array());
        stack.is_some_and(|stack| !stack.is_empty())
    };
    let of = |event: &'static str| held.iter().filter(move |r| r.event == event);
    let calls = of("syscalls:sys_enter_getppid").filter(|r| stack(r, "kstack") && stack(r, "ustack"));
    let calls = calls.count() as u64;
    let kinds: std::collections::BTreeSet<&str> = held.iter().map(|r| r.event.as_str()).collect();
    println!(
        "{calls} calls, {} kinds, {written:?} records, {missed} missed",
        kinds.len()
    );
    assert!(calls <= 50 && calls + missed >= 50, "{calls}, {missed} missed");
    assert!(kinds.len() > 10, "{kinds:?}");
    // The first table's have none.
    let without = held.iter().filter(|record| !stack(record, "kstack"));
    let without: std::collections::BTreeSet<&str> = without.map(|r| r.event.as_str()).collect();
    assert!(
        without.iter().all(|event| *event == "sched:sched_process_exec"),
        "{without:?}"
    );
    // Records that waited in the stream and for an agent are there still.
    let waits = |name: &str| session_buffer(name).is_some_and(|buffer| buffer.before().is_some());
    assert!(waits("read") && waits("messages"));
    store().stop(None).unwrap();
    nothing_is_left();
}

fn session_buffer(name: &str) -> Option<kestrel::buffer::Buffer> {
    let buffers = store().session(None).unwrap().buffers().unwrap();
    buffers.into_iter().find(|buffer| buffer.name() == name)
}

#[test]
fn two_sessions_count_the_same_events() {
    let catalog = Catalog::new(Host::default());
    start("left", CALLS, &catalog);
    start("right", &CALLS.replace("64k", "256k"), &catalog);
    shell("for i in 1 2 3; do calls getppid 10000 & done; wait").success();
    for name in ["left", "right"] {
        assert_recorded(name, 30_000, &format!("in {name}"));
    }
    kestrel(&["stop", "left"]).success();
    shell("calls getppid 100").success();
    assert_recorded("right", 30_100, "in the session that is left");
    kestrel(&["stop"]).success();
    nothing_is_left();
}

/// A machine with many sessions: all are looked at over the same time, so many of them take hardly longer than one.
#[test]
fn fifty_sessions_are_looked_at_together() {
    const SESSIONS: usize = 50;
    let catalog = Catalog::new(Host::default());
    for number in 0..SESSIONS {
        start(&format!("s{number}"), CALLS, &catalog);
    }
    let begun = Instant::now();
    let printed = kestrel(&["status", "--interval", "1s", "--format", "json"]).success();
    let took = begun.elapsed();
    let all: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let intervals: f64 = all.iter().map(|one| one["interval"].as_f64().unwrap()).sum();
    println!("{took:?} for {intervals} s of looking");
    assert_eq!(all.len(), SESSIONS);
    assert!(
        intervals >= SESSIONS as f64,
        "each was looked at for a second: {intervals}"
    );
    assert!(
        took.as_secs_f64() < intervals / 3.0,
        "one after the other: {took:?}"
    );
    for number in 0..SESSIONS {
        kestrel(&["stop", &format!("s{number}")]).success();
    }
    nothing_is_left();
}

/// Hundreds of different handlers load on one event: a jump over all of them is longer than an instruction's offset (32,767).
#[test]
fn hundreds_of_different_handlers_on_one_event() {
    // Where a hook is four programs, loading them takes four times as long, and a quarter of them is enough: how long a jump is does not depend on that.
    let four = Catalog::new(Host::default()).preemption().tracepoints;
    let handlers: u64 = if four { 85 } else { 340 };
    let mut text = String::from("buffer b { size = 64k }\n");
    for number in 0..handlers {
        writeln!(
            text,
            "table t{number} {{ syscalls:sys_enter_getppid /comm == \"calls\" && pid != {number}/ {{ record(v = {number}) }} }}"
        )
        .unwrap();
    }
    std::fs::write("/tmp/many.kst", &text).unwrap();
    let begun = Instant::now();
    kestrel(&["start", "many", "/tmp/many.kst"]).success();
    println!("started in {:?}", begun.elapsed());
    for number in [0, handlers / 2, handlers - 1] {
        kestrel(&["table", "use", &format!("t{number}"), "--session", "many"]).success();
        shell("calls getppid 10").success();
    }
    assert_recorded("many", 30, "with three of the handlers");
    kestrel(&["stop", "many"]).success();
    nothing_is_left();
}
