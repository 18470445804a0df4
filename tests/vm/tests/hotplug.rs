//! Processors that go and come, and wall clocks that are set, while sessions and recorders go on.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::time::Duration;
use vm_tests::recording::{Record, Recorder, counts, records};
use vm_tests::{kestrel, run, shell};

const TABLE: &str = r#"
buffer main { size = 4M }
table t {
  syscalls:sys_enter_getppid /comm == "calls"/ { record(pid) }
  profile:ms:20 { record(tick = 1) }
  interval:ms:50 { record(one = 1) }
}
table u { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid) } profile:ms:20 { record(tick = 1) } }
"#;

/// Takes the second processor away, or brings it back.
fn online(on: bool) {
    std::fs::write("/sys/devices/system/cpu/cpu1/online", if on { "1" } else { "0" }).unwrap();
}

fn calls(on: u64, count: u64) {
    let (cpu, count) = (on.to_string(), count.to_string());
    run("taskset", &["-c", &cpu, "calls", "getppid", &count]).success();
}

/// Records of an event on a processor, before and after a time.
fn around(all: &[Record], event: &str, cpu: u64, time: u64) -> (usize, usize) {
    let of = |r: &&Record| r.event.contains(event) && r.cpu == cpu;
    let before = all.iter().filter(of).filter(|r| r.time < time).count();
    (before, all.iter().filter(of).count() - before)
}

/// Waits until the session has seen some ticks of the second processor since a time, and its companion, which was attached beside it, too.
fn ticking(since: u64) {
    std::thread::sleep(Duration::from_millis(200));
    let begun = std::time::Instant::now();
    for number in 0.. {
        let place = format!("/tmp/hot.ticks-{since}-{number}");
        kestrel(&["buffer", "dump", "--session", "hot", "-o", &place]).success();
        let ticks = around(&records(&place), "profile", 1, since).1;
        std::fs::remove_dir_all(&place).unwrap();
        if ticks > 8 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{ticks} ticks");
    }
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn status() -> serde_json::Value {
    let text = kestrel(&["status", "hot", "--interval", "0", "--format", "json"]).success();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_processor_goes_and_comes_back() {
    std::fs::write("/tmp/hot.kst", TABLE).unwrap();
    kestrel(&["start", "hot", "/tmp/hot.kst"]).success();
    let events = "syscalls:sys_enter_getppid /comm == \"calls\"/";
    let recorder = Recorder::start("hot", &["-a", "-e", events, "-e", "profile:ms:20"]);
    calls(1, 1000);
    ticking(0);
    online(false);
    let away = monotonic();
    calls(0, 1000);
    let without = status();
    assert_eq!(
        without["unattended"],
        serde_json::json!([]),
        "nothing is wanted of one that is away"
    );
    kestrel(&["buffer", "dump", "--session", "hot", "-o", "/tmp/hot.away"]).success();
    // Taken before: the recorder may have the processor's clock again before the command that brings the processor back has ended.
    let back = monotonic();
    online(true);
    let with = status();
    assert_eq!(with["unattended"][0]["event"], "profile:ms:20", "{with}");
    assert_eq!(with["unattended"][0]["cpus"], serde_json::json!([1]));
    assert!(
        kestrel(&["status", "hot", "--interval", "0"])
            .success()
            .contains("profile:ms:20 does not come from CPU 1")
    );
    kestrel(&["table", "use", "u", "--session", "hot"]).success();
    assert_eq!(
        status()["unattended"],
        serde_json::json!([]),
        "whoever changes the session attaches it"
    );
    calls(1, 1000);
    ticking(back);
    let out = kestrel(&["buffer", "dump", "--session", "hot", "-o", "/tmp/hot.back"]).success();
    let skipped: u64 = status()["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["skipped"].as_u64().unwrap())
        .sum();
    kestrel(&["stop", "hot"]).success();
    let (all, counts, _) = recorder.stop();
    assert!(records("/tmp/hot.away").len() > 1000);
    for (all, skipped, whose) in [
        (all, counts.skipped, "recorder"),
        (records("/tmp/hot.back"), skipped, "session"),
    ] {
        let (before, after) = around(&all, "getppid", 1, away);
        let elsewhere = around(&all, "getppid", 0, 0).1;
        println!("{whose}: {before} calls before, {elsewhere} elsewhere, {after} after");
        assert!(
            (before + elsewhere + after) as u64 + skipped >= 3000,
            "{whose}: {out}"
        );
        assert!(before <= 1000 && elsewhere <= 1000 && after <= 1000);
        let (before, after) = around(&all, "profile", 1, back);
        println!("{whose}: {before} ticks before, {after} after");
        assert!(
            before > 3 && after > 3,
            "{whose}: {before} ticks before, {after} after"
        );
        let between = all
            .iter()
            .filter(|r| r.cpu == 1 && r.time > away && r.time < back);
        assert_eq!(between.count(), 0, "nothing happens on a processor that is away");
    }
}

/// The trace's times are those of the clock as it stood when the session began, whatever is done to it afterwards.
#[test]
fn the_wall_clock_is_set_while_events_come() {
    std::fs::write("/tmp/clock.kst", TABLE).unwrap();
    let begun = shell("date +%s").success().trim().parse::<u64>().unwrap();
    kestrel(&["start", "clock", "/tmp/clock.kst"]).success();
    let recorder = Recorder::start(
        "clock",
        &["-a", "-e", "syscalls:sys_enter_getppid /comm == \"calls\"/"],
    );
    calls(0, 300);
    shell("date -s @2000000000").success();
    calls(0, 300);
    shell("date -s @1000000000").success();
    calls(1, 300);
    kestrel(&["buffer", "dump", "-o", "/tmp/clock.dump"]).success();
    let text = kestrel(&["status", "clock", "--interval", "0"]).success();
    let ago = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("session clock, started ")
        .unwrap();
    let seconds: u64 = ago.strip_suffix(" s ago").unwrap().parse().unwrap();
    assert!(seconds < 100, "{text}");
    recorder.interrupt();
    let directory = recorder.directory.clone();
    let said = recorder.wait();
    assert_eq!(said.code, Some(0), "{}", said.err);
    let programs = kestrel(&["status", "clock", "--interval", "50ms", "--format", "json"]).success();
    let programs: serde_json::Value = serde_json::from_str(&programs).unwrap();
    let programs = programs["programs"].as_array().unwrap();
    let skipped: u64 = programs.iter().map(|p| p["skipped"].as_u64().unwrap()).sum();
    kestrel(&["stop", "clock"]).success();
    shell(&format!("date -s @{}", begun + 10)).success();
    let skipped = [counts(&said.err).skipped, skipped];
    for (directory, skipped) in [directory.as_str(), "/tmp/clock.dump"].into_iter().zip(skipped) {
        let all = records(directory);
        let calls: Vec<&Record> = all.iter().filter(|r| r.event.contains("getppid")).collect();
        let report = kestrel(&["report", directory, "--format", "json"]).success();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let first = report["begins_ns"].as_u64().unwrap() / 1_000_000_000;
        println!("{directory}: {} calls, from {first}, begun {begun}", calls.len());
        assert!(
            first >= begun && first <= begun + 100,
            "{first} is not near {begun}"
        );
        let span = report["span_ns"].as_u64().unwrap();
        assert!(span < 100_000_000_000, "{span}");
        assert!(
            calls.len() <= 900 && calls.len() as u64 + skipped >= 900,
            "{skipped} skipped"
        );
    }
}
