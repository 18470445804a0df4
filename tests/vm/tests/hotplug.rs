//! CPUs taken offline and back online, and wall clocks that are set, while sessions and recorders run.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use vm_tests::recording::{Record, Recorder, counts, records};
use vm_tests::{kestrel, run, shell, until};

const TABLE: &str = r#"
buffer main { size = 4M }
table t {
  syscalls:sys_enter_getppid /comm == "calls"/ { record(pid) }
  profile:ms:20 { record(tick = 1) }
  interval:ms:50 { record(one = 1) }
}
table u { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid) } profile:ms:20 { record(tick = 1) } }
"#;

/// Takes the second CPU offline, or online again.
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

/// Waits until the session has seen some ticks of the second CPU since a time, and the recorder has written some: calls there fill the
/// pages that it writes. Returns the number of calls.
fn ticking(since: u64, recorder: &Recorder) -> u64 {
    until("ticks in the session", || {
        let place = format!("/tmp/hot.ticks-{since}");
        kestrel(&["buffer", "dump", "--session", "hot", "-o", &place]).success();
        let ticks = around(&records(&place), "profile", 1, since).1;
        std::fs::remove_dir_all(&place).unwrap();
        ticks > 8
    });
    let mut made = 0;
    until("ticks in the recording", || {
        calls(1, 200);
        made += 200;
        let written = kestrel(&["print", "--format", "json", &recorder.directory]).out;
        let ticks = written.lines().filter_map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).ok()?;
            let of = record["event"].as_str()?.contains("profile") && record["cpu"] == 1;
            Some(of && record["time"].as_u64()? >= since)
        });
        ticks.filter(|is| *is).count() > 8
    });
    made
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
    let first = 1000 + ticking(monotonic(), &recorder);
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
    let last = ticking(back, &recorder);
    let out = kestrel(&["buffer", "dump", "--session", "hot", "-o", "/tmp/hot.back"]).success();
    let missed: u64 = status()["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["missed"].as_u64().unwrap())
        .sum();
    kestrel(&["stop", "hot"]).success();
    let (all, counts, _) = recorder.stop();
    assert!(records("/tmp/hot.away").len() as u64 + missed > 1000);
    for (all, missed, whose) in [
        (all, counts.missed, "recorder"),
        (records("/tmp/hot.back"), missed, "session"),
    ] {
        let (before, after) = around(&all, "getppid", 1, away);
        let elsewhere = around(&all, "getppid", 0, 0).1;
        println!("{whose}: {before} calls before, {elsewhere} elsewhere, {after} after");
        let (before, elsewhere, after) = (before as u64, elsewhere as u64, after as u64);
        assert!(
            before + elsewhere + after + missed >= first + 1000 + last,
            "{whose}: {out}"
        );
        assert!(before <= first && elsewhere <= 1000 && after <= last);
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
    let watch = std::time::Instant::now();
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
    // Seconds, or minutes where the machine is slow; by neither of the dates that were set, which are years away.
    let ago = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("session clock, started ")
        .unwrap();
    assert!(
        ago.ends_with(" s ago") && !ago.contains(" h ") && !ago.contains(" d "),
        "{text}"
    );
    recorder.interrupt();
    let directory = recorder.directory.clone();
    let printed = recorder.wait();
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let programs = kestrel(&["status", "clock", "--interval", "50ms", "--format", "json"]).success();
    let programs: serde_json::Value = serde_json::from_str(&programs).unwrap();
    let programs = programs["programs"].as_array().unwrap();
    let missed: u64 = programs.iter().map(|p| p["missed"].as_u64().unwrap()).sum();
    kestrel(&["stop", "clock"]).success();
    shell(&format!("date -s @{}", begun + 10)).success();
    let missed = [counts(&printed.err).missed, missed];
    let took = watch.elapsed();
    for (directory, missed) in [directory.as_str(), "/tmp/clock.dump"].into_iter().zip(missed) {
        let all = records(directory);
        let calls: Vec<&Record> = all.iter().filter(|r| r.event.contains("getppid")).collect();
        let report = kestrel(&["report", directory, "--format", "json"]).success();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let first = report["begins_ns"].as_u64().unwrap() / 1_000_000_000;
        println!("{directory}: {} calls, from {first}, begun {begun}", calls.len());
        assert!(
            first >= begun && first <= begun + took.as_secs() + 1,
            "{first} is not near {begun}"
        );
        let span = report["span_ns"].as_u64().unwrap();
        assert!(u128::from(span) < took.as_nanos(), "{span} in {took:?}");
        assert!(
            calls.len() <= 900 && calls.len() as u64 + missed >= 900,
            "{missed} missed"
        );
    }
}
