//! Watching a session that runs: every record once and in order, nothing taken from agents and dumps, tables that are loaded and buffers that are resized
//! are followed, what is missed is counted exactly.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::kernel::Host;
use kestrel::session::store::Store;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vm_tests::recording::{count, records};
use vm_tests::{kestrel, shell};

const TABLES: &str = r#"
buffer flown { size = 256K }
buffer kept  { size = 256K; mode = stream }
table main {
  syscalls:sys_enter_getppid /comm == "calls"/ { record(pid) }
  syscalls:sys_enter_lseek /comm == "calls"/ { record(pid, to("kept")) }
}
"#;

/// A session of this table file, stopped at the end.
struct Session;

impl Session {
    fn start(text: &str) -> Self {
        fs::write("/tmp/watch.kst", text).unwrap();
        kestrel(&["start", "/tmp/watch.kst"]).success();
        Self
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = kestrel(&["stop"]);
    }
}

fn missed() -> u64 {
    let store = Store::open(&Host::default()).unwrap();
    store.session(None).unwrap().missed().unwrap()
}

struct Watcher(Child);

impl Watcher {
    fn start(options: &[&str]) -> Self {
        let mut command = Command::new("kestrel");
        command
            .args(["trace", "--session", "--format", "json"])
            .args(options);
        command.stdout(fs::File::create("/tmp/watch.out").unwrap());
        command.stderr(fs::File::create("/tmp/watch.said").unwrap());
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        until("beginning", || printed().contains("watching session"));
        Self(child)
    }

    /// Ends it as Ctrl-C does; gives the events that it showed, by name and time.
    fn end(mut self) -> Vec<(String, u64)> {
        shell(&format!("kill -INT {}", self.0.id())).success();
        self.wait()
    }

    fn wait(&mut self) -> Vec<(String, u64)> {
        assert!(self.0.wait().unwrap().success(), "{}", printed());
        let text = fs::read_to_string("/tmp/watch.out").unwrap();
        let line = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            (
                value["event"].as_str().unwrap().to_owned(),
                value["time"].as_u64().unwrap_or(0),
            )
        };
        text.lines().map(line).collect()
    }
}

fn printed() -> String {
    fs::read_to_string("/tmp/watch.said").unwrap_or_default()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{what} in vain: {}",
            printed()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn of(seen: &[(String, u64)], call: &str) -> u64 {
    seen.iter().filter(|(event, _)| event.ends_with(call)).count() as u64
}

fn explained(seen: u64, missed: u64, happened: u64) {
    assert!(
        seen <= happened && seen + missed >= happened,
        "{seen} of {happened}, {missed} missed: {}",
        printed()
    );
}

#[test]
fn records_of_a_session_are_shown_once_to_each_watcher() {
    let session = Session::start(TABLES);
    shell("calls getppid 50 && calls seek 50").success();
    let watcher = Watcher::start(&[]);
    shell("calls getppid 700 && calls seek 700").success();
    // Two that look at the same time see the same; a stream's reader frees nothing that is not seen.
    let agent = kestrel(&["agent", "--once", "--log", "/tmp/watch.log"]);
    assert_eq!(agent.code, Some(0), "{}", agent.err);
    let text = "table later { syscalls:sys_enter_getppid /comm == \"calls\"/ { record(later = 1) } }";
    fs::write("/tmp/later.kst", text).unwrap();
    kestrel(&["table", "load", "/tmp/later.kst"]).success();
    kestrel(&["table", "use", "later"]).success();
    shell("calls getppid 300").success();
    kestrel(&["table", "use", "main"]).success();
    kestrel(&["buffer", "resize", "flown", "512K"]).success();
    kestrel(&["buffer", "resize", "kept", "64K"]).success();
    shell("calls getppid 90 && calls seek 90").success();
    let seen = watcher.end();
    let missed = missed();
    explained(of(&seen, "getppid"), missed, 700 + 300 + 90);
    explained(of(&seen, "lseek"), missed, 790);
    assert!(seen.is_sorted_by_key(|(_, time)| *time));
    assert!(
        !printed().contains("missed") && !printed().contains("overwritten"),
        "{}",
        printed()
    );
    // All of it is where it was.
    kestrel(&["agent", "--once", "--log", "/tmp/watch.log"]).success();
    let logged: usize = shell("ls -d /tmp/watch.log/main/0*")
        .success()
        .lines()
        .map(|path| records(path).len())
        .sum();
    explained(logged as u64, missed, 840);
    kestrel(&["buffer", "dump", "--buffer", "flown", "-o", "/tmp/watch.trace"]).success();
    explained(records("/tmp/watch.trace").len() as u64, missed, 840 + 300);
    // With what is there already; one buffer; until the session ends.
    let mut watcher = Watcher::start(&["--since", "1h", "--buffer", "flown"]);
    drop(session);
    let seen = watcher.wait();
    assert!(printed().contains("the session has ended"), "{}", printed());
    explained(of(&seen, "getppid"), missed, 840 + 300);
    assert_eq!(of(&seen, "lseek"), 0);
    for (options, code, why) in [
        (&["trace", "--session"][..], 1, "no session"),
        (
            &["trace", "--session", "x", "-e", "interval:s:1"],
            2,
            "cannot be used with",
        ),
        (&["trace"], 2, "nothing says what to trace"),
        (&["trace", "--buffer", "flown"], 2, "--session"),
    ] {
        let run = kestrel(options);
        assert!(
            run.code == Some(code) && run.err.contains(why),
            "{options:?}: {:?} {}",
            run.code,
            run.err
        );
    }
}

#[test]
fn records_overwritten_before_they_are_shown_are_counted_exactly() {
    let session = Session::start(&TABLES.replace("256K", "4K"));
    let wrong = kestrel(&["trace", "--session", "--buffer", "nowhere"]);
    assert!(
        wrong.code == Some(2) && wrong.err.contains("flown, kept"),
        "{:?} {}",
        wrong.code,
        wrong.err
    );
    let watcher = Watcher::start(&["--buffer", "flown"]);
    // It sleeps while rings of two pages come round, many times.
    shell(&format!("kill -STOP {}", watcher.0.id())).success();
    shell("calls getppid 5000").success();
    shell(&format!("kill -CONT {}", watcher.0.id())).success();
    shell("calls getppid 20").success();
    let seen = watcher.end();
    let missing = printed();
    let missing = missing
        .lines()
        .find(|line| line.contains("events were overwritten"))
        .unwrap_or_default();
    let missing = count(missing).unwrap();
    let shown = of(&seen, "getppid");
    println!("{shown} shown, {missing} missing: {}", printed());
    assert!(missing + missed() > 4000 && shown > 20, "{}", printed());
    explained(shown + missing, missed(), 5020);
    drop(session);
}
