//! The agent's log: every record in one file, once, whenever the agent is killed; files of limited size, time and number; tables that are loaded; full disks.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::kernel::Host;
use kestrel::session::store::Store;
use kestrel_trace::ctf::directory;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vm_tests::recording::{Record, records};
use vm_tests::{kestrel, number_in, shell};

const TABLE: &str = r#"
buffer kept  { size = 1M; mode = stream }
buffer flown { size = 64K }
table main {
  syscalls:sys_enter_getppid /comm == "calls"/ { record(comm) }
}
"#;

/// A session of this table file, stopped at the end.
struct Session;

impl Session {
    fn start(text: &str) -> Self {
        fs::write("/tmp/log.kst", text).unwrap();
        kestrel(&["start", "/tmp/log.kst"]).success();
        Self
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = kestrel(&["stop"]);
    }
}

/// Hits that were missed, as 7.x does when a program is preempted.
fn missed() -> u64 {
    let store = Store::open(&Host::default()).unwrap();
    store.session(None).unwrap().missed().unwrap()
}

fn agent(options: &[&str]) -> Child {
    let printed = fs::File::create("/tmp/agent.said").unwrap();
    let mut command = Command::new("kestrel");
    command.arg("agent").args(options);
    command.stdout(Stdio::null()).stderr(printed).spawn().unwrap()
}

fn printed() -> String {
    fs::read_to_string("/tmp/agent.said").unwrap_or_default()
}

/// Ends an agent as Ctrl-C does.
fn end(mut agent: Child) {
    shell(&format!("kill -INT {}", agent.id())).success();
    assert!(agent.wait().unwrap().success(), "{}", printed());
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(
            begun.elapsed() < Duration::from_secs(90),
            "{what} in vain: {}",
            printed()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn files(folder: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.'));
    all.sort();
    all
}

/// The records of all files, which follow each other in time on each CPU.
fn all_records(folder: &str) -> Vec<Record> {
    let of = |path: &PathBuf| records(path.to_str().unwrap());
    files(folder).iter().flat_map(of).collect()
}

fn different(records: &[Record]) -> usize {
    let places: BTreeSet<(u64, u64)> = records.iter().map(|r| (r.cpu, r.time)).collect();
    places.len()
}

/// 50 kills on request: `KESTREL_AGENT_KILLS`.
#[test]
fn each_record_is_kept_once_however_often_the_agent_is_killed() {
    let _gone = fs::remove_dir_all("/tmp/log");
    let session = Session::start(TABLE);
    let begun = Instant::now();
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for burst in ["150", "20"] {
            let (done, calls) = (&done, &calls);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    shell(&format!("calls getppid {burst}")).success();
                    calls.fetch_add(burst.parse().unwrap(), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
        for round in 0..number_in("KESTREL_AGENT_KILLS", 8) {
            let rotation = ["64K", "8M"][round as usize % 2];
            let mut agent = agent(&[
                "--log",
                "/tmp/log",
                "--rotate-size",
                rotation,
                "--rotate-time",
                "30ms",
            ]);
            // Some while they end what the one before left, most while they write and rotate.
            if round % 5 > 0 {
                until("beginning", || printed().contains("keeping kept"));
            }
            if round % 2 == 1 {
                let before = files("/tmp/log/main").len();
                until("a file", || files("/tmp/log/main").len() > before);
            }
            std::thread::sleep(Duration::from_millis(round * 7 % 60));
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    println!("killed after {:?}", begun.elapsed());
    let last = kestrel(&["agent", "--once", "--log", "/tmp/log"]);
    assert_eq!(last.code, Some(0), "{}", last.err);
    let missed = missed();
    let status = kestrel(&["status", "--interval", "0", "--format", "json"]).success();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    // Where agents come late the ring is full: what it lost is counted.
    let lost = status["buffers"][0]["lost"].as_u64().unwrap();
    let kept = all_records("/tmp/log/main");
    let calls = calls.load(Ordering::Relaxed);
    assert_eq!(different(&kept), kept.len(), "a record is there twice");
    let known = kept.len() as u64 + lost;
    assert!(
        known <= calls && known + missed >= calls,
        "{} and {lost} lost of {calls}, {missed} missed",
        kept.len()
    );
    // Every other agent was let write one.
    let least = number_in("KESTREL_AGENT_KILLS", 8) as usize / 2;
    assert!(
        files("/tmp/log/main").len() >= least,
        "{:?}",
        files("/tmp/log/main")
    );
    let hidden = fs::read_dir("/tmp/log/main").unwrap();
    let hidden: Vec<String> = hidden
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(hidden, [".counts.json"], "nothing is left unfinished");
    println!(
        "{calls} calls, {} files, {:?}",
        files("/tmp/log/main").len(),
        begun.elapsed()
    );
    drop(session);
}

/// 40 on request: `KESTREL_AGENT_KILLS`.
#[test]
fn a_stream_is_resized_while_it_is_kept_and_its_agent_is_killed() {
    let _gone = fs::remove_dir_all("/tmp/resized");
    let session = Session::start(TABLE);
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut refused, mut resized) = (0, 0);
    std::thread::scope(|scope| {
        for burst in ["1500", "200"] {
            let (done, calls) = (&done, &calls);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    shell(&format!("calls getppid {burst}")).success();
                    calls.fetch_add(burst.parse().unwrap(), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        for round in 0..number_in("KESTREL_AGENT_KILLS", 4) {
            let mut agent = agent(&["--log", "/tmp/resized"]);
            let size = ["512K", "1M", "2M"][round as usize % 3];
            // Records of the old ring that the agent before had not read are read first.
            until("resizing", || {
                let run = kestrel(&["buffer", "resize", "kept", size]);
                let waits = run.err.contains("wait for their reader");
                assert!(run.code == Some(0) || waits, "{}", run.err);
                refused += u64::from(waits);
                run.code == Some(0)
            });
            resized += 1;
            // Before it sees the new ring, while it changes over, and later.
            std::thread::sleep(Duration::from_millis(round * 5 % 40));
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let last = kestrel(&["agent", "--once", "--log", "/tmp/resized"]);
    assert_eq!(last.code, Some(0), "{}", last.err);
    let missed = missed();
    let status = kestrel(&["status", "--interval", "0", "--format", "json"]).success();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let full = status["buffers"][0]["lost"].as_u64().unwrap();
    let kept = all_records("/tmp/resized/main");
    let calls = calls.load(Ordering::Relaxed);
    let mut newest = std::collections::BTreeMap::new();
    let backwards = kept
        .iter()
        .filter(|r| newest.insert(r.cpu, r.time) > Some(r.time))
        .count();
    println!(
        "{calls} calls, {resized} resizes, {refused} refused at first, {} files, {backwards} out of order",
        files("/tmp/resized/main").len()
    );
    assert_eq!(different(&kept), kept.len(), "a record is there twice");
    // Where agents come late the ring is full: what it lost is counted.
    let known = kept.len() as u64 + full;
    assert!(
        known <= calls && known + missed >= calls,
        "{} and {full} lost of {calls}, {missed} missed",
        kept.len()
    );
    // A writer that was interrupted while the ring was exchanged may be late, once on each CPU.
    assert!(backwards <= 2 * resized, "{backwards} records are out of order");
    let rings = shell("ls /sys/fs/bpf/kestrel/main").success();
    assert!(rings.contains(&format!("kept-{resized}")), "{rings}");
    drop(session);
}

#[test]
fn files_are_the_users_and_of_limited_size_and_number() {
    let _gone = fs::remove_dir_all("/tmp/rotated");
    fs::create_dir_all("/etc").unwrap();
    fs::write(
        "/etc/passwd",
        "root:x:0:0:root:/:/bin/sh\nops:x:1234:1235::/:/bin/sh\n",
    )
    .unwrap();
    shell("chmod 755 /tmp").success();
    // However slow an agent is, it cannot take more at once, and so put into one file, than the rings hold.
    let session = Session::start(&TABLE.replace("1M", "64K"));
    let options = [
        "--log",
        "/tmp/rotated",
        "--rotate-size",
        "64K",
        "--keep",
        "3",
        "--user",
        "ops",
    ];
    let keeper = agent(&options);
    until("beginning", || printed().contains("keeping kept"));
    let second = kestrel(&["agent", "--once", "--log", "/tmp/other"]);
    assert!(
        second.err.contains("another agent keeps its log"),
        "{}",
        second.err
    );
    until("rotating", || {
        shell("calls getppid 1000").success();
        printed().contains("removed")
    });
    // Records left when the session ends are kept, too.
    shell("calls getppid 7 2").success();
    drop(session);
    until("ending", || {
        printed().contains("it has ended, and its log is whole")
    });
    end(keeper);
    let names = files("/tmp/rotated/main");
    assert_eq!(names.len(), 3, "{}", printed());
    for path in names.iter().chain([&PathBuf::from("/tmp/rotated/main")]) {
        let found = fs::metadata(path).unwrap();
        assert_eq!(
            (found.uid(), found.gid(), found.mode() & 0o777),
            (1234, 1235, 0o700),
            "{path:?}"
        );
    }
    for path in &names {
        let mut bytes = 0;
        for entry in fs::read_dir(path).unwrap() {
            let found = entry.unwrap().metadata().unwrap();
            assert_eq!(found.uid(), 1234);
            if found.is_file() {
                assert_eq!(found.mode() & 0o777, 0o600);
                bytes += found.len();
            }
        }
        assert!(bytes < 400 << 10, "{path:?} has {bytes} bytes");
    }
    let last = all_records("/tmp/rotated/main");
    assert_eq!(different(&last), last.len());
    // The threads that called have other numbers than their process, and ended long before the file did.
    let newest = names.last().unwrap();
    let tasks = directory::open(newest).unwrap().tasks;
    let of_threads: Vec<Record> = records(newest.to_str().unwrap())
        .into_iter()
        .filter(|record| record.tid != record.pid)
        .collect();
    assert!(!of_threads.is_empty(), "{names:?}");
    for record in of_threads {
        assert_eq!(
            u64::from(tasks.process(record.tid as u32)),
            record.pid,
            "{record:?}"
        );
    }
    let report = kestrel(&["report", names[1].to_str().unwrap()]).success();
    assert!(report.contains("sys_enter_getppid"), "{report}");
}

#[test]
fn tables_that_are_loaded_are_followed_and_overwriting_buffers_are_refused() {
    let _gone = fs::remove_dir_all("/tmp/loaded");
    let session = Session::start(TABLE);
    let refused = kestrel(&["agent", "--once", "--log", "/tmp/loaded", "--log-buffer", "flown"]);
    assert!(refused.err.contains("flown overwrites"), "{}", refused.err);
    let keeper = agent(&["--log", "/tmp/loaded", "--log-buffer", "kept"]);
    until("beginning", || printed().contains("keeping kept"));
    shell("calls getppid 300").success();
    let text =
        "table later { syscalls:sys_enter_read /comm == \"calls\"/ { record(args.count, later = 1) } }";
    fs::write("/tmp/later.kst", text).unwrap();
    kestrel(&["table", "load", "/tmp/later.kst"]).success();
    kestrel(&["table", "use", "later"]).success();
    shell("calls read 300").success();
    end(keeper);
    let kept = all_records("/tmp/loaded/main");
    let of = |event: &str| kept.iter().filter(|r| r.event.ends_with(event)).count() as u64;
    let missed = missed();
    let (first, second) = (of("sys_enter_getppid"), of("sys_enter_read"));
    assert!(first <= 300 && first + missed >= 300, "{first}");
    assert!(second >= 300 - missed.min(300), "{second}");
    assert!(
        kept.iter()
            .any(|r| r.event.ends_with("read") && r.number("later") == 1)
    );
    drop(session);
}

/// A stream that is made while the agent runs is kept beside those that were there.
#[test]
fn a_stream_that_is_made_later_is_kept_from_its_first_record_on() {
    let _gone = fs::remove_dir_all("/tmp/made");
    let session = Session::start(TABLE);
    let keeper = agent(&["--log", "/tmp/made"]);
    until("beginning", || printed().contains("keeping kept"));
    shell("calls getppid 100").success();
    let create = ["buffer", "create", "more", "1M", "--mode", "stream"];
    kestrel(&create).success();
    let table =
        "table main { syscalls:sys_enter_getppid /comm == \"calls\"/ { record(comm, to(\"more\")) } }";
    fs::write("/tmp/more.kst", table).unwrap();
    kestrel(&["table", "load", "/tmp/more.kst"]).success();
    shell("calls getppid 200").success();
    until("the new one", || printed().contains("kept, more"));
    shell("calls getppid 50").success();
    // The first one is kept on.
    fs::write(
        "/tmp/less.kst",
        TABLE
            .split_once("table")
            .unwrap()
            .1
            .replacen(" main", "table main", 1),
    )
    .unwrap();
    kestrel(&["table", "load", "/tmp/less.kst"]).success();
    shell("calls getppid 25").success();
    end(keeper);
    let kept = all_records("/tmp/made/main");
    assert_eq!(different(&kept), kept.len(), "a record is there twice");
    let (kept, missed) = (kept.len() as u64, missed());
    assert!(
        kept <= 375 && kept + missed >= 375,
        "{kept}, {missed} missed\n{}",
        printed()
    );
    drop(session);
}

#[test]
fn a_full_disk_is_waited_for_and_losses_are_counted() {
    shell("mkdir -p /tmp/small && mount -t tmpfs -o size=400k none /tmp/small").success();
    let session = Session::start(&TABLE.replace("1M", "64K"));
    let keeper = agent(&[
        "--log",
        "/tmp/small/log",
        "--rotate-size",
        "128K",
        "--rotate-time",
        "200ms",
    ]);
    until("beginning", || printed().contains("keeping kept"));
    let mut calls = 0u64;
    until("filling", || {
        shell("calls getppid 1500").success();
        calls += 1500;
        printed().contains("No space left on device")
    });
    // More than the ring holds.
    shell("calls getppid 6000").success();
    calls += 6000;
    let status = kestrel(&["status", "--interval", "0", "--format", "json"]).success();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert!(status["buffers"][0]["lost"].as_u64().unwrap() > 0, "{status}");
    shell("mount -o remount,size=16m /tmp/small").success();
    until("going on", || printed().contains("the log goes on"));
    shell("calls getppid 100").success();
    calls += 100;
    end(keeper);
    let kept = all_records("/tmp/small/log/main");
    assert_eq!(different(&kept), kept.len(), "a record is there twice");
    let mut lost = 0;
    for path in files("/tmp/small/log/main") {
        let text = fs::read_to_string(Path::new(&path).join(".kestrel/summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = summary["events"].as_array().unwrap();
        lost += events.iter().map(|e| e["lost"].as_u64().unwrap()).sum::<u64>();
    }
    let explained = kept.len() as u64 + lost;
    let missed = missed();
    assert!(
        lost > 0 && explained <= calls && explained + missed >= calls,
        "{} + {lost} of {calls}: {}",
        kept.len(),
        printed()
    );
    drop(session);
    shell("umount /tmp/small").success();
}
