//! Quiet: recorders, live views and agents that have nothing to do sleep, and the writers of their rings wake them.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::buffer::bell::Bell;
use kestrel::catalog::Catalog;
use kestrel::kernel::{Host, readable};
use kestrel::plan::{Options, Source, plan};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vm_tests::recording::{Record, Recorder, records};
use vm_tests::{getppid_calls, kestrel, shell, until};

/// Wakes of an idle program in a second.
const MAX: u64 = 10;
/// Time over which its wakes are counted.
const WINDOW: Duration = Duration::from_secs(3);

/// A program in the background, ended as Ctrl-C does.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new("kestrel");
        command.args(arguments).stdin(Stdio::null());
        command.stdout(File::create("/tmp/quiet.out").unwrap());
        command.stderr(File::create("/tmp/quiet.said").unwrap());
        Self(command.spawn().unwrap())
    }

    /// Number of times that its threads have gone to sleep.
    fn sleeps(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let status: Vec<String> = tasks.flatten().map(status).collect();
        let lines = status.iter().flat_map(|status| status.lines());
        let counts = lines.filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        counts.map(|count| count.trim().parse::<u64>().unwrap()).sum()
    }

    /// Waits until it is quiet: what it does at its start takes a while.
    fn becomes_quiet(&self, what: &str) {
        until(what, || {
            let (begun, before) = (Instant::now(), self.sleeps());
            std::thread::sleep(WINDOW);
            let most = MAX * begun.elapsed().as_millis() as u64 / 1000;
            self.sleeps().saturating_sub(before) <= most
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = shell(&format!("kill -INT {}", self.0.id()));
        let _status = self.0.wait();
    }
}

const EVENT: &str = "syscalls:sys_enter_getppid /comm == \"calls\"/ { record(pid) }";

#[test]
fn with_nothing_to_do_nothing_wakes() {
    let recorder = Running::start(&["record", "-e", EVENT, "-o", "/tmp/quiet"]);
    recorder.becomes_quiet("a recorder");
    drop(recorder);
    let recorder = Running::start(&["record", "-e", EVENT, "-o", "/tmp/quiet", "--", "sleep", "1000"]);
    recorder.becomes_quiet("a recorder of a command");
    drop(recorder);
    let recorder = Running::start(&["record", "-g", "-e", EVENT, "-o", "/tmp/quiet"]);
    recorder.becomes_quiet("a recorder of stacks");
    drop(recorder);
    let live = Running::start(&["trace", "-e", EVENT]);
    live.becomes_quiet("a live view");
    shell("calls getppid 1").success();
    until("the one event", || {
        fs::read_to_string("/tmp/quiet.out")
            .unwrap()
            .contains("sys_enter_getppid")
    });
    live.becomes_quiet("a live view that has seen something");
}

#[test]
fn an_agent_with_nothing_to_do_sleeps() {
    let table = "buffer kept { size = 1M; mode = stream }\n\
                 table main { syscalls:sys_enter_getppid /comm == \"calls\"/ { record(pid); notify(\"called\") } }";
    fs::write("/tmp/quiet.kst", table).unwrap();
    kestrel(&["start", "/tmp/quiet.kst"]).success();
    let agent = Running::start(&["agent", "--log", "/tmp/quiet.log"]);
    agent.becomes_quiet("an agent");
    shell("calls getppid 1").success();
    until("the message", || {
        fs::read_to_string("/tmp/quiet.out").unwrap().contains("called")
    });
    agent.becomes_quiet("an agent that has had something to do");
    drop(agent);
    let watcher = Running::start(&["trace", "--session"]);
    watcher.becomes_quiet("a watcher");
    drop(watcher);
    kestrel(&["stop"]).success();
}

/// A recording of all processes of an idle machine: its records, and of these the recorder's own.
fn idle(event: &str, options: &[&str]) -> (Vec<Record>, Vec<Record>) {
    let mut command = vec!["record", "-a", "-e", event, "--duration", "4", "-o", "/tmp/idle"];
    command.extend(options);
    let mut recorder = Command::new("kestrel").args(command).spawn().unwrap();
    let pid = u64::from(recorder.id());
    assert!(recorder.wait().unwrap().success());
    let is_own = |record: &&Record| record.pid == pid || has_own_name(record);
    let all = records("/tmp/idle");
    let own = all.iter().filter(is_own).cloned().collect();
    (all, own)
}

#[test]
fn the_recorder_is_left_out_unless_it_is_asked_for() {
    let event = "sched:sched_switch";
    let alone = |records: &[Record]| {
        let with_idle = |record: &&Record| record.number("prev_pid") == 0 || record.number("next_pid") == 0;
        records.iter().filter(with_idle).count()
    };
    let (with, all_own) = idle(event, &["--include-self"]);
    assert!(
        alone(&all_own) > 4,
        "{} of {} switches",
        all_own.len(),
        with.len()
    );
    let (without, own) = idle(event, &[]);
    println!(
        "{} of {} switches with --include-self, {} of {} without",
        all_own.len(),
        with.len(),
        own.len(),
        without.len()
    );
    assert!(!without.is_empty());
    // The recorder's remaining events are switches to and from other programs, which are about those.
    assert_eq!(alone(&own), 0, "of {} switches", without.len());
    own_share_is_small(event);
}

/// The recorder's part of what an otherwise idle machine does: one thread that sleeps now and then, as all machines have some. The recorder wakes as often as its ring
/// fills by a quarter and ten times a second; of each wake two switches at most are left, where another program ran just before or after it.
fn own_share_is_small(event: &str) {
    const SLEEPS: usize = 2_000;
    let recorder = Recorder::start("quiet-share", &["-a", "-e", event]);
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (all, _, printed) = recorder.stop();
    let own = all.iter().filter(|record| has_own_name(record)).count();
    println!("{own} of {} switches are the recorder's", all.len());
    assert!(all.len() > SLEEPS, "{} of {SLEEPS} sleeps: {printed}", all.len());
    assert!(own * 100 < all.len(), "{own} of {}: {printed}", all.len());
}

/// Whether a switch is one to or from a recorder.
fn has_own_name(record: &Record) -> bool {
    let mut fields = ["prev_comm", "next_comm"].iter();
    fields.any(|comm| record.fields.get(*comm).is_some_and(|it| it == "kestrel"))
}

#[test]
fn its_own_system_calls_are_left_out_unless_they_are_asked_for() {
    for event in ["syscalls:*", "raw_syscalls:sys_enter", "syscalls:sys_enter_write"] {
        let (all, own) = idle(event, &[]);
        assert!(
            own.is_empty(),
            "{event}: {} of {}: {:?}",
            own.len(),
            all.len(),
            own[0]
        );
        let (all, own) = idle(event, &["--include-self"]);
        println!("{event}: {} of {} with --include-self", own.len(), all.len());
        assert!(
            event.ends_with("write") || own.len() > 4,
            "{event}: {} of {}",
            own.len(),
            all.len()
        );
    }
}

/// A session for this process's calls of getppid, with this bell and the smallest ring but one.
fn session(bell: Bell) -> Session {
    let catalog = Catalog::new(Host::default());
    let options = Options {
        target: ProcessFilter::Processes(vec![std::process::id()]),
        buffer_bytes: Some(32 << 10),
        bell,
        ..Options::default()
    };
    let events = ["syscalls:sys_enter_getppid".to_owned()];
    let plan = plan(Source::Events(&events), &options, &catalog).unwrap();
    let session = Session::start(&plan, &catalog, "a test").unwrap();
    session.activate();
    session
}

#[test]
fn a_writer_wakes_the_reader_that_listens() {
    for (bell, few, enough) in [(Bell::Records, 0, 1), (Bell::QuarterFull, 100, 2000)] {
        let mut session = session(bell);
        getppid_calls(few);
        assert!(
            !readable::wait(&[session.bell().unwrap()], Duration::ZERO),
            "nobody listens"
        );
        for _ in 0..3 {
            session.listen().unwrap();
            for buffer in session.buffers() {
                let ring = buffer.ring();
                for cpu in ring.cpus() {
                    ring.acknowledge(cpu, ring.in_use(cpu));
                }
            }
            assert!(!readable::wait(&[session.bell().unwrap()], Duration::ZERO));
            getppid_calls(enough);
            assert!(
                readable::wait(&[session.bell().unwrap()], Duration::from_secs(60)),
                "{bell:?}"
            );
        }
    }
}
