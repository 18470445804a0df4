//! A buffer for one process: its records from the first to the last, no other process's, as a recorder with `-p` has them.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use vm_tests::recording::{Record, Recorder, records};
use vm_tests::{kestrel, shell, until};

/// Events around and inside of switches, in interrupts, at the beginning and the end of processes; all of them are read raw.
const EVENTS: &[&str] = &[
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "sched:sched_switch",
    "sched:sched_wakeup",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:local_timer_entry",
    "irq_vectors:reschedule_entry",
    "tlb:tlb_flush",
    "exceptions:page_fault_user",
];

/// A process that waits for a line, then runs a script of the shell.
fn waiting(script: &str) -> Child {
    let child = Command::new("taskset")
        .args(["-c", "0", "sh", "-c", &format!("read go; {script}")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // In the call that waits for a line (read, or poll before it), and not on its way there.
    let call = format!("/proc/{}/syscall", child.id());
    until("its waiting", || {
        let call = fs::read_to_string(&call).unwrap();
        call.starts_with("0 0x0 ") || call.starts_with("7 ")
    });
    child
}

fn dump(session: &str, buffer: &str) -> Vec<Record> {
    let directory = format!("/tmp/{session}.{buffer}");
    let arguments = [
        "buffer",
        "dump",
        "--session",
        session,
        "--buffer",
        buffer,
        "-o",
        &directory,
    ];
    kestrel(&arguments).success();
    let records = records(&directory);
    shell(&format!("rm -r {directory}")).success();
    records
}

/// The row of `buffer list` about a buffer.
fn listed(session: &str, buffer: &str) -> Value {
    let text = kestrel(&["buffer", "list", "--session", session, "--format", "json"]).success();
    let mut rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.find(|row| row["name"] == buffer).unwrap()
}

/// Number of records of a buffer since it was made. A dump would show it, too, but the other buffers record the calls that a dump makes.
fn kept(session: &str, buffer: &str) -> u64 {
    listed(session, buffer)["recorded"].as_u64().unwrap()
}

/// Hits that the kernel brought to no program of the session.
fn missed(session: &str) -> u64 {
    let run = kestrel(&["status", session, "--interval", "50ms", "--format", "json"]);
    let status: Value = serde_json::from_str(run.out.lines().next().unwrap()).unwrap();
    let programs = status["programs"].as_array().unwrap();
    programs.iter().map(|p| p["missed"].as_u64().unwrap()).sum()
}

/// Checks that no record of the process is in the other buffers, and none of others in its own; returns its own.
fn whole(session: &str, pid: u32, others: &[&str]) -> Vec<Record> {
    let its = |record: &&Record| record.pid == u64::from(pid);
    let own = dump(session, "second");
    let strangers: Vec<&Record> = own.iter().filter(|record| !its(record)).collect();
    assert!(
        strangers.is_empty(),
        "{} others in it: {:?}",
        strangers.len(),
        strangers[0]
    );
    for other in others {
        let all = dump(session, other);
        let strays: Vec<&Record> = all.iter().filter(its).collect();
        assert!(
            strays.is_empty(),
            "{} strays in {other}: {:?}",
            strays.len(),
            strays[0]
        );
    }
    let list = listed(session, "second");
    // A frozen one refuses what comes then.
    assert_eq!(list["overwritten"], 0, "{list}");
    assert!(list["frozen"] == true || list["lost"] == 0, "{list}");
    own
}

/// The records up to each thread's `sched_process_exit`, and those after it. A session's buffer has the latter, a recording of the process perhaps not:
/// its recorder ends when the kernel reports the process's end, and the dead thread may still be on its CPU then.
fn at_exit(records: &[Record]) -> (Vec<Record>, Vec<Record>) {
    let mut gone = HashSet::new();
    let mut lives = |record: &&Record| {
        let alive = !gone.contains(&record.tid);
        if record.event == "sched:sched_process_exit" {
            gone.insert(record.tid);
        }
        alive
    };
    records.iter().cloned().partition(|record| lives(&record))
}

/// Number of times that each record stands there. Times are left out: of two programs on one event either may be interrupted before it has taken its time.
/// CPUs of system calls are left out, too: from 6.13 on a thread can move to another one between two programs of their tracepoints.
fn each(records: &[Record]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for record in records {
        let fields = serde_json::to_string(&record.fields).unwrap();
        let cpu = match record.event.starts_with("raw_syscalls:") {
            true => String::new(),
            false => format!(" CPU {}", record.cpu),
        };
        let key = format!("{}{cpu} thread {} {fields}", record.event, record.tid);
        *all.entry(key).or_default() += 1;
    }
    all
}

/// Each thread's first and last event that did not come in an interrupt: those may come between the two programs that see another one.
fn ends(records: &[Record]) -> BTreeMap<u64, [String; 2]> {
    let own = |record: &&Record| {
        ["raw_syscalls:", "sched:sched_process", "sched:sched_switch"]
            .iter()
            .any(|prefix| record.event.starts_with(prefix))
    };
    let mut ends = BTreeMap::new();
    for record in records.iter().filter(own) {
        let text = format!("{} {:?}", record.event, record.fields);
        let both = ends
            .entry(record.tid)
            .or_insert_with(|| [text.clone(), String::new()]);
        both[1] = text;
    }
    ends
}

/// A life that another recorder sees, too: it waits, starts others, is moved from CPU to CPU and back, becomes another program with threads, and ends.
const LIFE: &str = "for cpu in 1 0 1; do taskset -pc $cpu $$ > /dev/null; calls getppid 50; done; \
     taskset -pc 0,1 $$ > /dev/null; exec calls getppid 400 3";

fn others() -> Child {
    Command::new("sh")
        .args(["-c", "for i in 1 2 3; do calls getppid 1000 & done; wait"])
        .spawn()
        .unwrap()
}

#[test]
fn the_buffer_holds_the_records_of_a_recorder_of_the_process() {
    let mut target = waiting(LIFE);
    let pid = target.id();
    let text = format!(
        "param target = {pid}
         buffer first {{ size = 8M }}
         buffer second {{ size = 8M process = target }}
         buffer third {{ size = 8M }}
         table capture {{
           {} {{ record() }}
           sched:sched_switch {{ record(); if (pid == target) {{ use_buffer(\"third\") }} }}
         }}",
        EVENTS.join(", ")
    );
    fs::write("/tmp/own.kst", text).unwrap();
    kestrel(&["start", "own", "/tmp/own.kst"]).success();
    let number = pid.to_string();
    // The session has the wakeups of its readers, too.
    let mut options = vec![
        "-p",
        &number,
        "--only-own",
        "--include-self",
        "--buffer-size",
        "16M",
    ];
    options.extend(EVENTS.iter().flat_map(|event| ["-e", event]));
    let recorder = Recorder::start("filtered", &options);
    let mut load = others();
    target.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(target.wait().unwrap().success());
    let (reference, counts, printed) = recorder.stop();
    load.wait().unwrap();
    assert_eq!(counts.lost, 0, "{printed}");

    let own = whole("own", pid, &["first", "third"]);
    // Both began while it waited and ended when it was gone.
    let missed = counts.missed + missed("own");
    let (ours, theirs) = (each(&own), each(&reference));
    let late = each(&at_exit(&own).1);
    let none = 0;
    let of = |all: &BTreeMap<String, u64>, key: &str| *all.get(key).unwrap_or(&none);
    let keys = ours
        .keys()
        .chain(theirs.keys().filter(|key| !ours.contains_key(*key)));
    let (mut apart, mut different) = (0, Vec::new());
    for key in keys {
        let (ours, theirs) = (of(&ours, key), of(&theirs, key));
        let differ = match ours.checked_sub(theirs) {
            Some(more) => more.saturating_sub(of(&late, key)),
            None => theirs - ours,
        };
        if differ > 0 {
            apart += differ;
            different.push(format!("{key}: {ours}, {theirs}"));
        }
    }
    println!(
        "{} of its own, {} of the recorder, {missed} missed by both",
        own.len(),
        reference.len()
    );
    // An event that meets a running program of one of them is missing there, and counted.
    assert!(
        apart <= missed,
        "{apart} differ, {missed} were missed: {different:#?}"
    );
    // Where a thread can be preempted between the programs of one hit, the switch comes before the hit for the second of them.
    let preempted = Catalog::new(Host::default()).preemption().tracepoints;
    if missed == 0 && !preempted {
        assert_eq!(ends(&at_exit(&own).0), ends(&at_exit(&reference).0));
    }
    let on = |cpu: u64| own.iter().any(|record| record.cpu == cpu);
    assert!(on(0) && on(1), "it was on both CPUs");
    let threads: std::collections::BTreeSet<u64> = own.iter().map(|record| record.tid).collect();
    assert!(threads.len() == 3, "{threads:?}");
    // A process that it started is another one.
    let forks: Vec<i64> = own
        .iter()
        .filter(|record| record.event == "sched:sched_process_fork")
        .map(|record| record.number("child_pid"))
        .filter(|child| !threads.contains(&(*child as u64)))
        .collect();
    assert!(forks.len() >= 3, "{forks:?}");
    let rest = dump("own", "third");
    assert!(
        rest.iter().any(|record| record.pid as i64 == forks[0]),
        "children are others"
    );
    kestrel(&["stop", "own"]).success();
}

/// By its number in the file it is there from the session's first event on; by a parameter it is named while both run.
#[test]
fn a_process_that_runs_already_is_set_aside_from_its_next_event_on() {
    let mut target = Command::new("sh")
        .args([
            "-c",
            "while [ ! -e /tmp/enough ]; do taskset -pc 1 $$ > /dev/null; taskset -pc 0 $$ > /dev/null; done",
        ])
        .spawn()
        .unwrap();
    let pid = target.id();
    // From the first event on: the number is in the file.
    let text = format!(
        "buffer first {{ size = 4M }} buffer second {{ size = 8M process = {pid} }}
         table all {{ {} {{ record() }} }}",
        EVENTS.join(", ")
    );
    fs::write("/tmp/running.kst", text).unwrap();
    kestrel(&["start", "running", "/tmp/running.kst"]).success();
    until("its records", || kept("running", "second") > 1000);
    kestrel(&["buffer", "freeze", "--session", "running"]).success();
    assert!(!whole("running", pid, &["first"]).is_empty());
    kestrel(&["stop", "running"]).success();

    // As the shipped table `process` has it, of fewer events.
    let text = format!(
        "param target = -1
         buffer first {{ size = 4M }}
         buffer second {{ size = 8M process = target }}
         buffer third {{ size = 4M }}
         table capture {{
           {} {{ record() }}
           sched:sched_switch {{ record(); if (pid == target) {{ use_buffer(\"third\") }} }}
         }}",
        EVENTS.join(", ")
    );
    fs::write("/tmp/three.kst", text).unwrap();
    kestrel(&["start", "three", "/tmp/three.kst"]).success();
    assert_eq!(dump("three", "second").len(), 0, "it is for no process");
    assert_eq!(listed("three", "second")["process"], -1);
    let set = format!("target={pid}");
    let printed = kestrel(&[
        "handler",
        "control",
        "--session",
        "three",
        "sched:sched_switch",
        "set",
        &set,
    ]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    // The command waited for handlers that saw the old value; what they wrote is from before the reset.
    kestrel(&["buffer", "reset", "--session", "three"]).success();
    let before = kept("three", "second");
    until("its records", || kept("three", "second") > before + 1000);
    kestrel(&["buffer", "freeze", "--session", "three"]).success();
    let list = listed("three", "second");
    assert_eq!(
        (&list["process"], &list["process_parameter"]),
        (&pid.into(), &"target".into())
    );
    let strays = |buffer: &str| {
        let all = dump("three", buffer);
        all.iter().filter(|record| record.pid == u64::from(pid)).count()
    };
    let own = dump("three", "second");
    assert!(own.len() > 1000, "{}", own.len());
    assert!(own.iter().all(|record| record.pid == u64::from(pid)));
    assert_eq!((strays("first"), strays("third")), (0, 0), "of {}", own.len());
    let text = kestrel(&["buffer", "list", "--session", "three"]).success();
    assert!(text.contains(&format!("process target = {pid}")), "{text}");
    fs::write("/tmp/enough", "").unwrap();
    target.wait().unwrap();
    kestrel(&["stop", "three"]).success();
}

/// A buffer for a process is made in a running session, keeps its process when it is resized, and is gone when it is removed.
#[test]
fn one_is_made_while_the_session_runs() {
    let tables = "param target = -1
        buffer main { size = 4M }
        table all { raw_syscalls:sys_enter, sched:sched_switch, irq:softirq_entry { record() } }";
    fs::write("/tmp/later.kst", tables).unwrap();
    kestrel(&["start", "later", "/tmp/later.kst"]).success();
    let refused = kestrel(&["buffer", "create", "second", "8M", "--process", "nobody"]);
    assert!(
        refused.code != Some(0) && refused.err.contains("target"),
        "{}",
        refused.err
    );
    let refused = kestrel(&["buffer", "create", "second", "8M", "--process", "0"]);
    assert!(
        refused.code == Some(2) && refused.err.contains("4194303"),
        "{}",
        refused.err
    );
    kestrel(&["buffer", "create", "second", "4M", "--process", "target"]).success();
    kestrel(&["buffer", "resize", "second", "8M"]).success();
    let mut target = waiting("calls getppid 20; exec calls getppid 500");
    let pid = target.id();
    let set = format!("target={pid}");
    kestrel(&["handler", "control", "irq:softirq_entry", "set", &set]).success();
    // Where it is now, it does nothing.
    kestrel(&["buffer", "reset"]).success();
    let mut load = others();
    target.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(target.wait().unwrap().success());
    load.wait().unwrap();
    let own = whole("later", pid, &["main"]);
    let calls = own
        .iter()
        .filter(|record| record.event == "raw_syscalls:sys_enter")
        .count() as u64;
    assert!(calls + missed("later") > 500, "{calls}");
    // A file that says otherwise is refused, one that says the same is not.
    fs::write(
        "/tmp/other.kst",
        "buffer main { size = 4M } buffer second { size = 8M } table more { irq:* { record() } }",
    )
    .unwrap();
    let refused = kestrel(&["table", "load", "/tmp/other.kst"]);
    assert!(
        refused.code != Some(0) && refused.err.contains("is for the process target"),
        "{}",
        refused.err
    );
    fs::write(
        "/tmp/same.kst",
        "param target = -1 buffer main { size = 4M } buffer second { size = 8M process = target } table more { irq:* { record() } }",
    )
    .unwrap();
    kestrel(&["table", "load", "/tmp/same.kst"]).success();
    kestrel(&["buffer", "remove", "second"]).success();
    kestrel(&["stop"]).success();
}
