//! Events of and about targets: a recording of some processes beside one of all, whose records are chosen by their fields.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use vm_tests::comparison::compare;
use vm_tests::recording::{Counts, Record, Recorder};
use vm_tests::{kestrel, shell, until};

const SWITCH: &str = "sched:sched_switch";
const WAKING: &str = "sched:sched_waking";
const FORK: &str = "sched:sched_process_fork";
const FREE: &str = "sched:sched_process_free";
const EVENTS: &[&str] = &[
    SWITCH,
    WAKING,
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_exit",
    FORK,
    FREE,
];
const LOAD: &str = "/tmp/about.load";

/// Tasks that sleep, and wake each other through pipes.
const SCRIPT: &str = "for i in 1 2 3; do (for j in 1 2 3 4; do sleep 0.01; done) & done
(n=0; while [ $n -lt 100 ]; do n=$((n+1)); echo $n; done) | (while read n; do :; done) &
wait";

fn events(more: &[&str]) -> Vec<String> {
    let mut options: Vec<String> = ["--buffer-size", "16M"].map(str::to_owned).into();
    for event in EVENTS {
        options.extend(["-e".to_owned(), (*event).to_owned()]);
    }
    options.extend(more.iter().map(|word| (*word).to_owned()));
    options
}

/// Threads of this process that come and go, sleep, and wake each other; another process meanwhile does, too.
fn bustle() {
    let mut other = Command::new("sh").arg(LOAD).spawn().unwrap();
    for _ in 0..5 {
        let (send, receive) = mpsc::channel();
        let sender = thread::spawn(move || {
            for number in 0..20 {
                thread::sleep(Duration::from_millis(1));
                send.send(number).unwrap();
            }
        });
        let receiver = thread::spawn(move || receive.iter().count());
        sender.join().unwrap();
        assert_eq!(receiver.join().unwrap(), 20);
    }
    other.wait().unwrap();
}

/// The threads that an event is about beside the one that it happened in, by the names of fields: none of these events has another thread's number
/// in a field of these names.
fn about(record: &Record) -> Vec<u64> {
    let names = ["pid", "next_pid", "child_pid"];
    let numbers = names.iter().filter_map(|name| record.fields.get(*name)?.as_u64());
    numbers.collect()
}

fn is_wanted(record: &Record, threads: &BTreeSet<u64>) -> bool {
    threads.contains(&record.tid) || about(record).iter().any(|thread| threads.contains(thread))
}

/// The recording of the targets is what the recording of all has of them.
fn same(all: &[Record], own: &[Record], threads: &BTreeSet<u64>, counts: &[Counts]) {
    let stranger = own.iter().find(|record| !is_wanted(record, threads));
    assert_eq!(stranger, None, "{threads:?}");
    let wanted: Vec<Record> = all.iter().filter(|r| is_wanted(r, threads)).cloned().collect();
    let by_others = |event: &str| {
        let mut of = own.iter().filter(|record| record.event == event);
        of.any(|record| !threads.contains(&record.tid))
    };
    assert!(by_others(SWITCH) && by_others(WAKING), "{own:?}");
    for (event, found) in compare(&wanted, own) {
        let may: usize = counts.iter().map(|counts| counts.may_lack(found.equal)).sum();
        assert_eq!(found.different, None, "{event}: {found:?}");
        assert!(
            found.left <= may && found.right <= may,
            "{event}: {found:?}, {may} may lack"
        );
        assert!(
            found.equal > 0 || event == "sched:sched_migrate_task",
            "{event}: {found:?}"
        );
    }
    for counts in counts {
        assert_eq!(counts.lost, 0);
    }
}

#[test]
fn a_process_and_all_its_threads() {
    fs::write(LOAD, SCRIPT).unwrap();
    let pid = std::process::id();
    let recorder = Recorder::start("about-all", &events(&["-a"]));
    let own = Recorder::start("about-own", &events(&["-p", &pid.to_string()]));
    bustle();
    let (own, own_counts, _) = own.stop();
    let (all, counts, _) = recorder.stop();
    let of = |records: &[Record]| -> Vec<u64> {
        let of = records.iter().filter(|record| record.pid == u64::from(pid));
        of.map(|record| record.tid).collect()
    };
    let threads: BTreeSet<u64> = of(&all).into_iter().chain(of(&own)).collect();
    assert!(threads.len() > 10, "{threads:?}");
    // Of threads that ended before the recording began, the kernel frees some in it.
    let without_free = |records: Vec<Record>| -> Vec<Record> {
        records
            .into_iter()
            .filter(|record| record.event != FREE)
            .collect()
    };
    same(
        &without_free(all),
        &without_free(own),
        &threads,
        &[own_counts, counts],
    );
}

#[test]
fn a_command_and_its_children() {
    fs::write(LOAD, SCRIPT).unwrap();
    let recorder = Recorder::start("about-all", &events(&["-a"]));
    let more = ["-e", "sched:sched_process_exec", "--", "sh", LOAD];
    let own = Recorder::start("about-command", &events(&more));
    let ended = own.directory.clone();
    let printed = own.wait();
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let own = vm_tests::recording::records(&ended);
    let own_counts = vm_tests::recording::counts(&printed.err);
    let (all, counts, _) = recorder.stop();
    let root = own
        .iter()
        .find(|record| record.event == "sched:sched_process_exec");
    let mut threads = BTreeSet::from([root.unwrap().pid]);
    for record in all.iter().filter(|record| record.event == FORK) {
        if threads.contains(&record.tid) {
            threads.insert(u64::try_from(record.number("child_pid")).unwrap());
        }
    }
    assert!(threads.len() > 10, "{threads:?}");
    let own: Vec<Record> = own
        .into_iter()
        .filter(|record| record.event != "sched:sched_process_exec")
        .collect();
    same(&all, &own, &threads, &[own_counts, counts]);
}

#[test]
fn only_a_processs_own_events() {
    fs::write(LOAD, SCRIPT).unwrap();
    let pid = std::process::id();
    let own = Recorder::start("about-strict", &events(&["-p", &pid.to_string(), "--only-own"]));
    bustle();
    let (own, counts, printed) = own.stop();
    assert!(counts.recorded > 100, "{printed}");
    let stranger = own.iter().find(|record| record.pid != u64::from(pid));
    assert_eq!(stranger, None);
}

#[test]
fn signals_to_a_process_by_its_name_are_about_it() {
    let script = "printf aboutme > /proc/self/comm; touch /tmp/about.ready; read line";
    let mut target = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    until("the target", || fs::exists("/tmp/about.ready").unwrap());
    let recorder = Recorder::start(
        "about-signals",
        &["-p", "aboutme", "-e", "signal:signal_generate"],
    );
    for _ in 0..20 {
        shell(&format!("kill -CONT {}", target.id())).success();
    }
    target.kill().unwrap();
    let ended = recorder.directory.clone();
    let printed = recorder.wait();
    target.wait().unwrap();
    let records = vm_tests::recording::records(&ended);
    let pid = i64::from(target.id());
    let strangers = records
        .iter()
        .find(|record| record.number("pid") != pid && record.pid as i64 != pid);
    assert_eq!(strangers, None);
    let sent = records.iter().filter(|record| record.number("pid") == pid);
    let counts = vm_tests::recording::counts(&printed.err);
    assert!(counts.explain(sent.count(), 21), "{}\n{records:?}", printed.err);
    fs::remove_file("/tmp/about.ready").unwrap();
}

#[test]
fn questions_about_a_recording_of_targets_are_about_these() {
    fs::write(LOAD, SCRIPT).unwrap();
    let trace = "/tmp/about.trace";
    let arguments = [
        "record",
        "-g",
        "-o",
        trace,
        "-e",
        SWITCH,
        "-e",
        WAKING,
        "-e",
        "sched:sched_wakeup_new",
    ];
    let command = ["--", "sh", LOAD];
    let printed = kestrel(&[&arguments[..], &command].concat());
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let names = |text: &str, end: char| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines
            .map(|line| line.split(end).next().unwrap().to_owned())
            .collect()
    };
    // busybox runs its applets as /proc/self/exe, and gives itself the applet's name then.
    let known = |names: BTreeSet<String>| {
        let others: Vec<&String> = names.iter().filter(|name| *name != "exe").collect();
        others == ["sh", "sleep"]
    };
    // µs: each of the children sleeps four times for 10 ms, less what it takes from the call to the switch.
    let folded = kestrel(&["report", "--off-cpu", "--folded", trace]).success();
    assert!(known(names(&folded, ';')), "{folded}");
    let slept: u64 = folded
        .lines()
        .filter(|line| line.starts_with("sleep;"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(slept >= 60_000, "{slept} µs:\n{folded}");
    let latency = kestrel(&["sched", "latency", "--format", "json", trace]).success();
    let latency: serde_json::Value = serde_json::from_str(&latency).unwrap();
    let rows = latency["tasks"].as_array().unwrap().iter();
    let names: BTreeSet<String> = rows.map(|row| row["comm"].as_str().unwrap().to_owned()).collect();
    assert!(known(names), "{latency}");
}
