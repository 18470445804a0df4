//! Clocks as events: how often they come and where, in recordings and in sessions; a table that switches itself and switches back after a time.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vm_tests::recording::{Record, Recorder, records};
use vm_tests::{kestrel, shell, table_file, until};

/// A dump of a session's buffers.
fn dump(session: &str) -> Vec<Record> {
    let directory = format!("/tmp/{session}.dumped");
    let _ = std::fs::remove_dir_all(&directory);
    kestrel(&["buffer", "dump", "--session", session, "-o", &directory]).success();
    records(&directory)
}

/// Programs that make numbered system calls until they are dropped, one for each CPU.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let one = |_| {
            Command::new("calls")
                .args(["seek", "1000000000"])
                .spawn()
                .unwrap()
        };
        Self((0..cpus).map(one).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Threads that make numbered system calls until they are dropped, two of them, and leave the processors to others in between: what is asked of
/// them is calls, not heat.
struct Calls(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Calls {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let one = |_| {
            let stop = Arc::clone(&stop);
            let calls = move || {
                let zero = std::fs::File::open("/dev/zero").unwrap();
                for number in 0.. {
                    rustix::fs::seek(&zero, rustix::fs::SeekFrom::Start(number)).unwrap();
                    if number % 64 == 63 {
                        std::thread::sleep(Duration::from_micros(500));
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
            };
            std::thread::Builder::new()
                .name("calls".to_owned())
                .spawn(calls)
                .unwrap()
        };
        let threads = (0..2).map(one).collect();
        Self(stop, threads)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Number of ticks that shows whether they come too often.
const ENOUGH: usize = 20;

/// A clock never comes too often; how seldom it comes is the machine's affair, so that there is no telling here but that it does.
fn ticks(records: &[&Record], period: u64) {
    assert!(records.len() > ENOUGH, "{} ticks", records.len());
    let (first, last) = (records[0].time, records[records.len() - 1].time);
    let most = (last - first) / period + 2;
    assert!(
        records.len() as u64 <= most,
        "{} ticks where there is time for {most}",
        records.len()
    );
    let share = records.len() as f64 / most as f64;
    println!("{} of {most} ticks of {period} ns: {share:.4}", records.len());
}

#[test]
fn intervals_tick_on_one_cpu_and_profiles_on_all() {
    // A machine that has other things to do leaves ticks out: then it takes longer.
    let mut time = Duration::from_millis(800);
    while !clocks_ticked(time) {
        assert!(time < Duration::from_secs(30), "too few ticks in {time:?}");
        time *= 3;
    }
}

/// Records clocks for a while and judges what came; gives whether that was enough.
fn clocks_ticked(time: Duration) -> bool {
    let recorder = Recorder::start(
        "ticks",
        &[
            "-a",
            "-e",
            "i:ms:10,p:20ms",
            "-e",
            "profile:hz:100 { record(kstack) }",
            "-e",
            "s:cs:10",
        ],
    );
    let load = Load::start();
    std::thread::sleep(time);
    drop(load);
    let (all, _, printed) = recorder.stop();
    let of = |event: &str, cpu: Option<u64>| -> Vec<&Record> {
        let wanted = |r: &&Record| r.event == event && cpu.is_none_or(|cpu| r.cpu == cpu);
        all.iter().filter(wanted).collect()
    };
    let few = ["profile:us:20000", "profile:hz:100"]
        .iter()
        .any(|event| (0..2).any(|cpu| of(event, Some(cpu)).len() <= ENOUGH));
    if few || of("interval:ms:10", None).len() <= ENOUGH || of("software:cs:10", None).is_empty() {
        println!("not enough in {time:?}");
        return false;
    }
    ticks(&of("interval:ms:10", None), 10_000_000);
    let cpus: BTreeSet<u64> = of("interval:ms:10", None).iter().map(|r| r.cpu).collect();
    assert_eq!(cpus.len(), 1, "one CPU is enough");
    for cpu in 0..2 {
        ticks(&of("profile:us:20000", Some(cpu)), 20_000_000);
        let profile = of("profile:hz:100", Some(cpu));
        ticks(&profile, 10_000_000);
        let stacks = profile.iter().filter(|r| {
            r.fields
                .get("kstack")
                .is_some_and(|s| !s.as_array().unwrap().is_empty())
        });
        assert!(stacks.count() > 0, "some of them hit the kernel: {printed}");
    }
    true
}

const SELF_SWITCHING: &str = r#"
param stay = 150ms
buffer main   { size = 1M }
buffer detail { size = 8M }
table normal {
  syscalls:sys_enter_getppid /comm == "calls"/ { record(mark = 1); @since = nsecs; @seen = 0; use_table("detail"); record(mark = 2) }
}
table detail : normal {
  syscalls:sys_enter_lseek /comm == "calls" && args.offset % 64 == 0/ { record(args.offset, to("detail")); @seen++ }
  interval:ms:10 /nsecs - @since > stay && @seen > 150/ { record(mark = 3); use_table("normal"); record(mark = 4) }
}
"#;

/// When the marks of one number were set.
fn marks(all: &[Record], mark: i64) -> Vec<u64> {
    let marked = |r: &&Record| r.fields.get("mark").and_then(serde_json::Value::as_i64) == Some(mark);
    all.iter().filter(marked).map(|r| r.time).collect()
}

/// The calls of each thread, by their numbers, with their times.
fn calls(all: &[Record]) -> BTreeMap<u64, BTreeMap<i64, u64>> {
    let mut threads: BTreeMap<u64, BTreeMap<i64, u64>> = BTreeMap::new();
    for record in all.iter().filter(|r| r.event == "syscalls:sys_enter_lseek") {
        let twice = threads
            .entry(record.tid)
            .or_default()
            .insert(record.number("offset"), record.time);
        assert_eq!(twice, None, "{record:?} is there twice");
    }
    threads
}

/// Detail holds exactly what another recording saw between the two switches; of each thread one call at each switch may have been on its way.
#[test]
fn a_table_that_switches_itself_records_the_events_between() {
    let file = table_file("itself", SELF_SWITCHING);
    kestrel(&["start", "itself", &file]).success();
    let event =
        "syscalls:sys_enter_lseek /comm == \"calls\" && args.offset % 64 == 0/ { record(args.offset) }";
    let witness = Recorder::start("witness", &["-a", "-e", event, "--buffer-size", "16M"]);
    let load = Calls::start();
    for episode in 1..=2 {
        std::thread::sleep(Duration::from_millis(100));
        // 7.x may skip a call: whether it switched stands in the buffer.
        until("the switch", || {
            shell("calls getppid 1").success();
            marks(&dump("itself"), 1).len() == episode
        });
        until("the switch back", || {
            !kestrel(&["table", "list"]).success().contains("* detail")
        });
    }
    drop(load);
    let (seen, counts, _) = witness.stop();
    let status = kestrel(&["status", "itself", "--format", "json"]).success();
    let all = dump("itself");
    kestrel(&["stop", "itself"]).success();
    assert_eq!((counts.lost, counts.overwritten), (0, 0));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["buffers"][1]["overwritten"], 0, "{status}");
    let programs = status["programs"].as_array().unwrap();
    let missed: u64 = programs.iter().map(|p| p["missed"].as_u64().unwrap()).sum();
    let missed = missed + counts.missed;
    let [begins, ons, ends, offs] = [1, 2, 3, 4].map(|mark| marks(&all, mark));
    assert_eq!((begins.len(), ons.len(), ends.len(), offs.len()), (2, 2, 2, 2));
    let (witnessed, detailed) = (calls(&seen), calls(&all));
    let (mut missing, mut more, mut right) = (0, 0, 0);
    for (thread, known) in &witnessed {
        let detailed = detailed.get(thread).cloned().unwrap_or_default();
        for episode in 0..2 {
            let inside = |time: u64| time > ons[episode] && time < ends[episode];
            right += known.iter().filter(|(_, time)| inside(**time)).count();
            let absent = known
                .iter()
                .filter(|(call, time)| inside(**time) && !detailed.contains_key(call));
            let absent = absent.count() as u64;
            missing += absent.saturating_sub(2);
        }
        let outside = |time: u64| (0..2).all(|e| time < begins[e] || time > offs[e]);
        let strange = detailed
            .keys()
            .filter(|call| known.get(*call).is_none_or(|time| outside(*time)));
        more += (strange.count() as u64).saturating_sub(4);
    }
    println!("{right} calls between the switches, {missing} missing, {more} too many, {missed} missed");
    assert!(right > 200, "the load was on");
    assert!(
        missing <= missed && more <= missed,
        "{missing} missing, {more} too many, {missed} missed"
    );
}

/// Any CPU.
const ANY: u64 = u64::MAX;

/// Handlers for clocks come into a running session, in the slot of a hook that is there and as hooks of their own.
#[test]
fn clocks_are_loaded_into_a_running_session() {
    let file = table_file("clocks", "table a { i:ms:10 { record(first = 1) } }");
    let more = table_file(
        "clocks-more",
        "table b { interval:ms:10 { record(second = 1); @ticks = count() } p:ms:10 { @[cpu] = count(); record(third = 1) } }",
    );
    kestrel(&["start", "clocks", &file]).success();
    let enough = |field: &str, cpu: u64| {
        until(field, || {
            let of = |r: &&Record| r.fields.contains_key(field) && (r.cpu == cpu || cpu == ANY);
            dump("clocks").iter().filter(of).count() > ENOUGH
        });
    };
    enough("first", ANY);
    kestrel(&["table", "load", &more]).success();
    kestrel(&["table", "use", "b"]).success();
    enough("second", ANY);
    enough("third", 0);
    enough("third", 1);
    kestrel(&["table", "use", "a"]).success();
    let all = dump("clocks");
    let with =
        |field: &str| -> Vec<&Record> { all.iter().filter(|r| r.fields.contains_key(field)).collect() };
    let (first, second, third) = (with("first"), with("second"), with("third"));
    ticks(&first, 10_000_000);
    ticks(&second, 10_000_000);
    let cpus: BTreeSet<u64> = third.iter().map(|r| r.cpu).collect();
    assert_eq!(cpus.into_iter().collect::<Vec<_>>(), [0, 1]);
    assert!(first.iter().all(|r| r.event == "interval:ms:10"));
    let (begin, end) = (second[0].time, second[second.len() - 1].time);
    assert!(
        first.iter().all(|r| r.time < begin || r.time > end),
        "one table at a time"
    );
    let list = kestrel(&["handler", "list", "-v"]).success();
    assert!(list.contains("@ticks") && list.contains("@[1]"), "{list}");
    kestrel(&["table", "unload", "b"]).success();
    kestrel(&["stop"]).success();
}
