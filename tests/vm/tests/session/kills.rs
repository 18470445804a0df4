//! Commands that are killed at any moment: what is left is the old state or the new one, and other sessions do not notice.

use super::{TWO, explained, held, nothing_in_the_file_systems, recorded, start, store, wait_until_gone};
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::session::store::Store;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vm_tests::{kestrel, number_in, run, shell, table_file};

/// Pseudo-random numbers, from a seed that the test prints.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

/// Runs a command and kills it after a while; true if it ended by itself.
fn kill_after(words: &[&str], micros: u64) -> bool {
    let mut child = Command::new("kestrel")
        .args(words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_micros(micros));
    let done = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    done
}

/// Time of a command.
fn time(words: &[&str]) -> u64 {
    let begun = Instant::now();
    run("kestrel", words).success();
    begun.elapsed().as_micros() as u64
}

#[test]
fn killed_starts_and_stops_leave_all_or_nothing() {
    let before = held();
    let file = table_file("killed", TWO);
    let (start, stop) = (["start", "killed", file.as_str()], ["stop", "killed"]);
    let (starting, stopping) = (time(&start), time(&stop));
    let mut dice = Dice(Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()));
    println!("start {starting} µs, stop {stopping} µs, seed {}", dice.0);
    let store = store();
    let (mut stayed, mut gone) = (0, 0);
    for round in 0..number_in("KESTREL_KILLS", 12) {
        kill_after(&start, dice.throw(starting * 5 / 4));
        if store.names().unwrap().is_empty() {
            gone += 1;
        } else {
            stayed += 1;
            let base = recorded(&store, "killed").0[0];
            shell("calls getppid 50").success();
            let (each, missed) = recorded(&store, "killed");
            explained(&[each[0] - base], missed, 50);
            kill_after(&stop, dice.throw(stopping * 5 / 4));
        }
        if round % 4 == 0 {
            let there = !store.names().unwrap().is_empty();
            assert_eq!(
                kestrel(&["status", "--interval", "0"]).code,
                Some(i32::from(!there))
            );
        }
        if !store.names().unwrap().is_empty() {
            kestrel(&stop).success();
        }
        store.sweep().unwrap();
        nothing_in_the_file_systems();
    }
    println!("{stayed} came to be, {gone} did not");
    wait_until_gone(&before);
}

#[test]
fn killed_switches_and_loads_leave_the_old_or_the_new() {
    let before = held();
    let file = table_file("changed", TWO);
    let third = table_file(
        "third",
        "table c { syscalls:sys_enter_getppid /comm == \"calls\"/ { record(pid, tid, to(\"three\")) } sched:sched_switch { record() } }",
    );
    kestrel(&["start", "changed", &file]).success();
    let commands: [&[&str]; 5] = [
        &["table", "use", "b"],
        &["table", "load", &third],
        &["table", "load", &file, "--table", "a"],
        &["table", "unload", "c"],
        &["table", "use", "a"],
    ];
    let times: Vec<u64> = commands.iter().map(|words| time(words)).collect();
    let mut dice = Dice(Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()));
    println!("{times:?} µs, seed {}", dice.0);
    let store = store();
    for round in 0..number_in("KESTREL_KILLS", 12) {
        let which = dice.throw(commands.len() as u64) as usize;
        kill_after(commands[which], dice.throw(times[which] * 5 / 4));
        let session = store.session(Some("changed")).unwrap();
        let names: Vec<&str> = session.state().tables.iter().map(|t| t.name.as_str()).collect();
        assert!(names == ["a", "b"] || names == ["a", "b", "c"], "{names:?}");
        let base: u64 = recorded(&store, "changed").0.iter().sum();
        if round % 4 == 0 {
            // An unfinished change is finished by the next command.
            let change = store.change(None).unwrap();
            assert!(change.state().retiring.is_empty());
            change.use_table("a").unwrap();
            drop(change);
            shell("calls getppid 50").success();
            let (each, missed) = recorded(&store, "changed");
            let sum: u64 = each.iter().sum::<u64>() - base;
            assert!(missed > 0 || sum >= 50, "{each:?} after {base}");
        }
    }
    kestrel(&["status"]).success();
    kestrel(&["stop"]).success();
    nothing_in_the_file_systems();
    wait_until_gone(&before);
}

/// A session that commands of every kind are killed on.
const VICTIM: &str = r#"
param limit = 1
buffer one { size = 64k }
buffer two { size = 64k }
table a { syscalls:sys_enter_getppid /comm == "calls" && pid > limit/ { record(pid, to("one")); @calls[comm] = count() } }
table b {
  syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, to("two")) }
  sched:sched_process_exit /comm == "calls"/ { notify("gone", comm) }
  interval:ms:50 { record(to("two")) }
}
"#;
const LATER: &str = r#"
table c { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, tid, to("one")) } sched:sched_switch { record(to("two")) } profile:ms:100 { count() } }
"#;
const DUMPED: &str = "/tmp/killed.dump";

/// A session that no command touches, and a load for it that is counted.
struct Survivor {
    stop: Arc<AtomicBool>,
    load: JoinHandle<u64>,
}

impl Survivor {
    fn begin(store: &Store) -> Self {
        let text = r#"buffer main { size = 1M } table t { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid) } }"#;
        start(store, "survivor", text, &Catalog::new(Host::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&stop);
        let load = std::thread::spawn(move || {
            let mut happened = 0;
            while !end.load(Ordering::Relaxed) {
                run("calls", &["getppid", "300"]).success();
                happened += 300;
                std::thread::sleep(Duration::from_millis(20));
            }
            happened
        });
        Self { stop, load }
    }

    /// Every event of the load is in it.
    fn end(self, store: &Store, besides: u64) {
        self.stop.store(true, Ordering::Relaxed);
        let happened = self.load.join().unwrap() + besides;
        let (each, missed) = recorded(store, "survivor");
        println!(
            "the survivor has {} of {happened} events, {missed} missed",
            each[0]
        );
        explained(&each[..1], missed, happened);
        kestrel(&["stop", "survivor"]).success();
    }
}

/// A killed dump leaves nothing at its place, or a whole trace.
fn dumped_wholly() {
    if !Path::new(DUMPED).exists() {
        return;
    }
    let report = kestrel(&["report", DUMPED]);
    let empty = report.code == Some(1) && report.err.contains("holds no events");
    assert!(empty || report.code == Some(0), "{report:?}");
    // The file that is written last.
    assert!(Path::new(DUMPED).join(".kestrel/summary.json").exists());
}

/// The commands' names, without their options.
fn title(words: &[&str]) -> String {
    words.iter().take(2).copied().collect::<Vec<_>>().join(" ")
}

#[test]
fn killed_commands_of_every_kind_leave_the_old_or_the_new() {
    let before = held();
    let (file, later) = (table_file("victim", VICTIM), table_file("later", LATER));
    let start = ["start", "victim", file.as_str()];
    let of = |words: &'static [&'static str]| -> Vec<&str> { [words, &["--session", "victim"]].concat() };
    let commands: Vec<Vec<&str>> = vec![
        vec!["stop", "victim"],
        of(&["table", "use", "b"]),
        of(&["table", "use", "a"]),
        [&["table", "load", later.as_str()][..], &["--session", "victim"]].concat(),
        [
            &["table", "load", file.as_str()][..],
            &["--table", "a", "--session", "victim"],
        ]
        .concat(),
        of(&["table", "unload", "c"]),
        of(&["buffer", "dump", "-o", DUMPED]),
        of(&["buffer", "dump", "-o", DUMPED, "--since", "1s"]),
        of(&["buffer", "freeze", "one"]),
        of(&["buffer", "thaw"]),
        of(&["buffer", "reset"]),
        of(&[
            "handler",
            "control",
            "a/syscalls:sys_enter_getppid",
            "set",
            "limit=2",
        ]),
        of(&["handler", "control", "a/syscalls:sys_enter_getppid", "reset"]),
        of(&["handler", "list", "-v"]),
        of(&["agent"]),
        vec!["status", "victim", "--interval", "10ms"],
    ];
    let store = store();
    let survivor = Survivor::begin(&store);
    let starting = time(&start);
    let times: Vec<u64> = commands[1..14].iter().map(|words| time(words)).collect();
    let times = [vec![starting], times, vec![starting; 2]].concat();
    let mut dice = Dice(Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()));
    println!("start {starting} µs, others {times:?} µs, seed {}", dice.0);
    let mut calls = 0;
    let mut done: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for round in 0..number_in("KESTREL_KILLS", 12) {
        let there = store.names().unwrap().contains(&"victim".to_owned());
        let which = dice.throw(commands.len() as u64) as usize;
        let (words, time) = match there {
            true => (commands[which].as_slice(), times[which]),
            false => (&start[..], starting),
        };
        let ended = kill_after(words, dice.throw(time * 5 / 4));
        let counts = done.entry(title(words)).or_default();
        *(if ended { &mut counts.0 } else { &mut counts.1 }) += 1;
        sound(&store, words);
        if round % 6 == 5 {
            kestrel(&["status", "--interval", "0"]).success();
            calls += works_on(&store, &file);
        }
    }
    println!("ended before it was killed, killed: {done:?}");
    if store.names().unwrap().contains(&"victim".to_owned()) {
        calls += works_on(&store, &file);
        kestrel(&["stop", "victim"]).success();
    }
    survivor.end(&store, calls);
    let _ = std::fs::remove_dir_all(DUMPED);
    store.sweep().unwrap();
    nothing_in_the_file_systems();
    wait_until_gone(&before);
}

/// The state is one that a command which was not killed can leave, too.
fn sound(store: &Store, words: &[&str]) {
    let names = store.names().unwrap();
    assert!(
        names == ["survivor"] || names == ["survivor", "victim"],
        "{names:?}"
    );
    if names.len() == 2 {
        let session = store.session(Some("victim")).unwrap();
        let tables: Vec<&str> = session.state().tables.iter().map(|t| t.name.as_str()).collect();
        assert!(
            tables == ["a", "b"] || tables == ["a", "b", "c"],
            "after {words:?}: {tables:?}"
        );
        let active = session.active().is_some() || !session.state().retiring.is_empty();
        assert!(active, "after {words:?}: no table is active");
    }
    if words.contains(&"dump") {
        dumped_wholly();
    }
}

/// The next command finishes what is half done, and what is there does its work.
///
/// Gives how many calls it made.
fn works_on(store: &Store, file: &str) -> u64 {
    if store.names().unwrap().len() == 1 {
        kestrel(&["start", "victim", file]).success();
    }
    kestrel(&["table", "use", "b", "--session", "victim"]).success();
    kestrel(&["buffer", "thaw", "--session", "victim"]).success();
    assert!(store.session(Some("victim")).unwrap().state().retiring.is_empty());
    let count = || {
        let status = store.session(Some("victim")).unwrap().status(None).unwrap();
        status
            .buffers
            .iter()
            .filter(|b| b.name == "two")
            .map(|b| b.sum(|ring| ring.recorded))
            .sum::<u64>()
    };
    let base = count();
    shell("calls getppid 50").success();
    let missed = store.session(Some("victim")).unwrap().missed().unwrap();
    assert!(missed > 0 || count() >= base + 50, "{} after {base}", count());
    50
}
