//! Persistent sessions: what is left of them, what switching and loading tables loses (nothing), who can see them.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

mod kills;
mod steps;

use kestrel::catalog::{Catalog, Via};
use kestrel::kernel::Host;
use kestrel::kernel::bpf::{link_ids, map_ids, program_ids};
use kestrel::plan::{Options, Source, plan};
use kestrel::session::start::Origin;
use kestrel::session::store::Store;
use kestrel::table::TableFile;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vm_tests::{kestrel, number_in, shell, table_file, until};

const TWO: &str = r#"
buffer one { size = 256k }
buffer two { size = 256k }
buffer three { size = 256k }
table a { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, to("one")) } }
table b { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, to("two")) } sched:sched_wakeup { record(to("two")) } }
"#;

/// The kernel's BPF objects: programs, maps, links.
fn held() -> [BTreeSet<u32>; 3] {
    let set = |ids: Vec<u32>| ids.into_iter().collect();
    [
        set(program_ids().unwrap()),
        set(map_ids().unwrap()),
        set(link_ids().unwrap()),
    ]
}

/// Waits until the kernel holds nothing that it did not hold before: it detaches in its own time.
fn wait_until_gone(before: &[BTreeSet<u32>; 3]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = held();
        let left: Vec<Vec<u32>> = now
            .iter()
            .zip(before)
            .map(|(now, before)| now.difference(before).copied().collect())
            .collect();
        if left.iter().all(Vec::is_empty) {
            return;
        }
        assert!(Instant::now() < deadline, "programs, maps, links left: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn nothing_in_the_file_systems() {
    assert!(!Path::new("/sys/fs/bpf/kestrel").exists(), "pins are left");
    assert!(!Path::new("/run/kestrel").exists(), "locks are left");
}

fn store() -> Store {
    Store::open(&Host::default()).unwrap()
}

fn start(store: &Store, name: &str, text: &str, catalog: &Catalog) {
    let file = TableFile::parse(text, name).unwrap();
    let how = Options {
        persistent: true,
        messages: true,
        ..Options::default()
    };
    let plan = plan(Source::File(&file), &how, catalog).unwrap();
    store.start(name, plan, catalog, None, Origin::default()).unwrap();
}

/// Records of each buffer, and what the kernel missed.
fn recorded(store: &Store, name: &str) -> (Vec<u64>, u64) {
    let session = store.session(Some(name)).unwrap();
    let status = session.status(None).unwrap();
    let lost: u64 = status.buffers.iter().map(|b| b.sum(|ring| ring.lost)).sum();
    assert_eq!(lost, 0, "buffers that overwrite lose nothing");
    let each = status
        .buffers
        .iter()
        .map(|b| b.sum(|ring| ring.recorded))
        .collect();
    (each, session.missed().unwrap())
}

/// Every event is in one buffer, or the kernel says that it missed it.
fn explained(each: &[u64], missed: u64, happened: u64) {
    let sum: u64 = each.iter().sum();
    assert!(
        sum <= happened,
        "{each:?}: more than the {happened} that happened"
    );
    assert!(
        sum + missed >= happened,
        "{each:?} and {missed} missed: fewer than the {happened} that happened"
    );
    if missed == 0 {
        assert_eq!(sum, happened, "{each:?}");
    }
}

/// A load of system calls on every CPU.
struct Load {
    children: Vec<Child>,
    calls: u64,
}

impl Load {
    fn start(calls: u64) -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let one = |_| {
            Command::new("calls")
                .args(["getppid", &calls.to_string()])
                .spawn()
                .unwrap()
        };
        Self {
            children: (0..cpus).map(one).collect(),
            calls,
        }
    }

    fn runs(&mut self) -> bool {
        self.children
            .iter_mut()
            .any(|child| child.try_wait().unwrap().is_none())
    }

    /// Number of calls that were made.
    fn finish(mut self) -> u64 {
        for child in &mut self.children {
            assert!(child.wait().unwrap().success());
        }
        self.calls * self.children.len() as u64
    }
}

#[test]
fn a_session_persists_and_stop_leaves_nothing() {
    let before = held();
    let file = table_file("stays", TWO);
    kestrel(&["start", "stays", &file]).success();
    shell("calls getppid 1000").success();
    let (each, missed) = recorded(&store(), "stays");
    explained(&each, missed, 1000);
    let status = kestrel(&["status", "--format", "json"]).success();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["session"], "stays");
    assert_eq!(status["tables"][0]["active"], true);
    assert!(status["tables"][0]["active_since"].is_u64());
    assert_eq!(status["events"][0]["event"], "syscalls:sys_enter_getppid");
    assert!(status["interval"].as_f64().unwrap() >= 0.2);
    // Without a time to look there are no rates, and all that is counted anyway.
    let at_once = kestrel(&["status", "--interval", "0", "--format", "json"]).success();
    let at_once: serde_json::Value = serde_json::from_str(&at_once).unwrap();
    let programs = at_once["programs"].as_array().unwrap();
    assert_eq!(programs.len(), status["programs"].as_array().unwrap().len());
    assert!(!programs.is_empty());
    for program in programs {
        assert!(program["missed"].is_u64() && program["rate"].is_null() && program["cost"].is_null());
    }
    let at_once = kestrel(&["status", "--interval", "0"]).success();
    assert!(at_once.contains("events missed"), "{at_once}");
    kestrel(&["table", "use", "b"]).success();
    shell("calls getppid 500").success();
    let (later, missed) = recorded(&store(), "stays");
    assert_eq!(later[0], each[0], "table a is masked");
    assert!(later[1] > each[1], "table b is not");
    assert!(missed > 0 || later[1] >= 500);
    kestrel(&["table", "use", "nothing"])
        .code
        .filter(|code| *code == 2)
        .unwrap();
    kestrel(&["stop"]).success();
    nothing_in_the_file_systems();
    wait_until_gone(&before);
    assert_eq!(kestrel(&["status"]).code, Some(1));
    assert_eq!(kestrel(&["stop"]).code, Some(1));
}

#[test]
fn two_sessions_are_distinguished() {
    let before = held();
    let file = table_file("twice", TWO);
    kestrel(&["start", "left", &file]).success();
    kestrel(&["start", "right", &file, "--table", "b"]).success();
    let again = kestrel(&["start", "left", &file]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("runs already"), "{}", again.err);
    let which = kestrel(&["table", "use", "b"]);
    assert_eq!(which.code, Some(2), "{}", which.err);
    assert!(which.err.contains("left, right"), "{}", which.err);
    shell("calls getppid 200").success();
    kestrel(&["table", "use", "b", "--session", "left"]).success();
    shell("calls getppid 300").success();
    let (left, missed) = recorded(&store(), "left");
    assert!(missed > 0 || left[0] == 200 && left[1] >= 300, "{left:?}");
    let (right, missed) = recorded(&store(), "right");
    assert!(missed > 0 || right[0] == 0 && right[1] >= 500, "{right:?}");
    kestrel(&["stop", "left"]).success();
    shell("calls getppid 100").success();
    let (after, missed) = recorded(&store(), "right");
    assert!(missed > 0 || after[1] >= right[1] + 100);
    kestrel(&["stop"]).success();
    nothing_in_the_file_systems();
    wait_until_gone(&before);
}

#[test]
fn another_user_sees_and_changes_nothing() {
    let file = table_file("private", TWO);
    kestrel(&["start", "private", &file]).success();
    kestrel(&["buffer", "dump", "-o", "/tmp/private.trace"]).success();
    for words in [
        &["status"][..],
        &["stop"],
        &["stop", "private"],
        &["table", "use", "b"],
        &["table", "list"],
        &["table", "load", &file],
        &["buffer", "list"],
        &["buffer", "dump", "-o", "/tmp/theirs"],
        &["buffer", "freeze", "main"],
        &["buffer", "resize", "main", "64K"],
        &["handler", "list"],
        &["handler", "control", "a/x", "reset"],
        &["probe", "list"],
        &["probe", "add", "theirs", "kprobe:vfs_read"],
        &["agent", "--once"],
        &["trace", "--session"],
        &["recover", "--live", "-o", "/tmp/theirs"],
        &["print", "/tmp/private.trace"],
        &["start", "another", &file],
    ] {
        let run = Command::new("kestrel")
            .args(words)
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&run.stderr);
        // A user who may not look does not learn that there is nothing.
        let code = if words[0] == "print" { 1 } else { 3 };
        assert_eq!(run.status.code(), Some(code), "{words:?}: {printed}");
        assert!(!printed.contains("table a"), "{words:?}: {printed}");
        assert!(run.stdout.is_empty(), "{words:?}");
    }
    let list = Command::new("ls")
        .args(["/sys/fs/bpf/kestrel", "/run/kestrel"])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert!(list.stdout.iter().all(|b| *b != b'\n') || !list.status.success());
    assert_eq!(store().session(None).unwrap().active().unwrap().name, "a");
    std::fs::remove_dir_all("/tmp/private.trace").unwrap();
    kestrel(&["stop"]).success();
    // A start without root's rights leaves no directory in bpffs, where every user may make one.
    let start = Command::new("kestrel")
        .args(["start", &file])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert_eq!(start.status.code(), Some(3));
    nothing_in_the_file_systems();
}

#[test]
fn all_buffers_of_a_table_file_are_watched_in_the_order_of_time() {
    let text = "buffer one { } buffer two { }\n\
        table t { syscalls:sys_enter_getppid { record(in = 1, to(\"one\")); record(in = 2, to(\"two\")) } }";
    std::fs::write("/tmp/two.kst", text).unwrap();
    let run = kestrel(&[
        "trace",
        "--table",
        "/tmp/two.kst",
        "--format",
        "json",
        "--",
        "calls",
        "getppid",
        "300",
    ]);
    let lines: Vec<&str> = run.out.lines().collect();
    let of = |mark: &str| lines.iter().filter(|line| line.contains(mark)).count();
    let (one, two) = (of("\"in\":1"), of("\"in\":2"));
    assert_eq!(one, two, "{}", run.err);
    assert!(
        one == 300 || one < 300 && run.err.contains("missed"),
        "{one}: {}",
        run.err
    );
    let time = |line: &&str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["time"].as_u64().unwrap()
    };
    assert!(lines.iter().map(time).is_sorted());
}

/// 10,000 on request: `KESTREL_SWITCHES`.
#[test]
fn switches_lose_and_double_nothing() {
    let before = held();
    let (store, catalog) = (store(), Catalog::new(Host::default()));
    let text = TWO.replace(" sched:sched_wakeup { record(to(\"two\")) }", "");
    start(&store, "switched", &text, &catalog);
    let mut happened = 0;
    let mut switches = 0;
    let wanted = number_in("KESTREL_SWITCHES", 500);
    while switches < wanted {
        let mut load = Load::start(50_000);
        while load.runs() {
            let change = store.change(None).unwrap();
            for name in ["b", "a", "b", "a", "b"] {
                change.use_table(name).unwrap();
                switches += 1;
                for _ in 0..20 {
                    std::thread::yield_now();
                }
            }
            drop(change);
            store.change(None).unwrap().use_table("a").unwrap();
            switches += 1;
        }
        happened += load.finish();
    }
    let (each, missed) = recorded(&store, "switched");
    println!("{switches} switches, {happened} events: {each:?}, {missed} missed");
    explained(&each, missed, happened);
    assert!(each[0] > 0 && each[1] > 0, "both had their share: {each:?}");
    store.stop(None).unwrap();
    wait_until_gone(&before);
}

const THIRD: &str = r#"
table c { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, tid, to("three")) } }
"#;

#[test]
fn loading_replacing_and_unloading_lose_nothing() {
    let before = held();
    let (store, catalog) = (store(), Catalog::new(Host::default()));
    let text = TWO.replace(" sched:sched_wakeup { record(to(\"two\")) }", "");
    start(&store, "loaded", &text, &catalog);
    let third = TableFile::parse(THIRD, "third").unwrap();
    // The same handlers from another file: a replacement of the active table.
    let same = TableFile::parse(&text, "same").unwrap();
    let stop = AtomicBool::new(false);
    let happened = AtomicU64::new(0);
    let rounds = number_in("KESTREL_LOADS", 8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                happened.fetch_add(Load::start(20_000).finish(), Ordering::Relaxed);
            }
        });
        for round in 0..rounds {
            let mut change = store.change(None).unwrap();
            change
                .load(&third, &["c".to_owned()], &catalog, Via::Auto)
                .unwrap();
            change.use_table("c").unwrap();
            if round % 3 == 0 {
                change
                    .load(&third, &["c".to_owned()], &catalog, Via::Auto)
                    .unwrap();
            }
            std::thread::sleep(Duration::from_millis(3));
            if round == 0 {
                until("events in the new table", || recorded(&store, "loaded").0[2] > 0);
            }
            change.use_table("a").unwrap();
            change.unload("c").unwrap();
            if round % 5 == 0 {
                change
                    .load(&same, &["a".to_owned()], &catalog, Via::Auto)
                    .unwrap();
            }
            assert_eq!(change.active().unwrap().name, "a");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let happened = happened.into_inner();
    let (each, missed) = recorded(&store, "loaded");
    println!("{rounds} rounds, {happened} events: {each:?}, {missed} missed");
    explained(&each, missed, happened);
    assert!(each[0] > 0 && each[2] > 0, "both had their share: {each:?}");
    let session = store.session(None).unwrap();
    assert!(session.state().retiring.is_empty());
    assert_eq!(session.state().hooks.len(), 1);
    assert!(
        session.state().next_record < 20,
        "numbers are used again: {}",
        session.state().next_record
    );
    drop(session);
    store.stop(None).unwrap();
    wait_until_gone(&before);
}

#[test]
fn a_table_in_use_is_not_unloaded() {
    let text = r#"
        table normal { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid); use_table("detail") } }
        table detail { sched:sched_switch { record() } }
    "#;
    let file = table_file("inuse", text);
    kestrel(&["start", &file]).success();
    let active = kestrel(&["table", "unload", "normal"]);
    assert_eq!(active.code, Some(1));
    assert!(active.err.contains("active"), "{}", active.err);
    let named = kestrel(&["table", "unload", "detail"]);
    assert!(
        named.err.contains("handlers of normal switch to it"),
        "{}",
        named.err
    );
    // 7.x may skip a call.
    until("the switch", || {
        shell("calls getppid 1").success();
        kestrel(&["table", "list"]).success().contains("* detail")
    });
    let status = kestrel(&["status"]).success();
    assert!(status.contains("by a handler"), "{status}");
    kestrel(&["table", "unload", "normal"]).success();
    kestrel(&["stop"]).success();
    nothing_in_the_file_systems();
}
