//! The scheduler's work, against `perf sched`, which records the same tasks at the same time.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use vm_tests::{kestrel, run, skip};

const TRACE: &str = "/tmp/sched.trace";
const PERF: &str = "/tmp/sched.perf";
const LOAD: &str = "/tmp/sched.load";

/// Tasks that sleep, compute, and wake each other through pipes; all are born and dead within the recording.
const SCRIPT: &str = "for i in 1 2 3; do
  (for j in 1 2 3 4; do sleep 0.01; n=0; while [ $n -lt 300 ]; do n=$((n+1)); done; done) &
done
(n=0; while [ $n -lt 400 ]; do n=$((n+1)); echo $n; done) | (while read n; do :; done) &
wait
sleep 0.2";

/// Number of records of each kind about a task: the records that only one recorder has bound the difference of their figures.
type About = BTreeMap<(u64, &'static str), i64>;

/// The events that figures are made of, with the fields that name tasks.
const ROLES: &[(&str, &str)] = &[
    ("sched:sched_switch", "prev_pid="),
    ("sched:sched_switch", "next_pid="),
    ("sched:sched_waking", "pid="),
    ("sched:sched_wakeup_new", "pid="),
    ("sched:sched_stat_runtime", "pid="),
];

/// The row of a task in perf's table.
#[derive(Debug)]
struct Row {
    runtime_ms: f64,
    switches: i64,
    average_ms: f64,
}

/// perf around kestrel around the tasks: both have all of a task that was born and died within.
fn record_both() {
    fs::write(LOAD, SCRIPT).unwrap();
    let _ = fs::remove_dir_all(TRACE);
    let kestrel = format!("kestrel sched record --buffer-size 16M -o {TRACE} -- sh {LOAD}");
    let clock = ["-k", "CLOCK_MONOTONIC", "-m", "4M", "-o", PERF];
    let arguments = [&["sched", "record"][..], &clock, &["--", "sh", "-c", &kestrel]].concat();
    let printed = run("perf", &arguments);
    assert_eq!(printed.code, Some(0), "{}\n{}", printed.out, printed.err);
}

fn count(about: &mut About, line: &str) {
    for (event, field) in ROLES {
        let Some((_, rest)) = line.split_once(&format!("{event}:")) else {
            continue;
        };
        let mut words = rest.split_whitespace();
        let number = words.find_map(|word| word.strip_prefix(field)?.parse().ok());
        if let Some(tid) = number {
            *about.entry((tid, field_of(event, field))).or_default() += 1;
        }
    }
}

/// A name for a role.
fn field_of(event: &'static str, field: &'static str) -> &'static str {
    if field == "pid=" { event } else { field }
}

/// Records about tasks, as the lines of `perf script` and `kestrel print` tell alike.
fn about(lines: &str) -> About {
    let mut about = About::new();
    for line in lines.lines() {
        count(&mut about, line);
    }
    about
}

/// The tasks that were born and that left a CPU for the last time within kestrel's recording.
fn whole(lines: &str) -> BTreeSet<u64> {
    let number = |line: &str, field: &str| -> Option<u64> {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix(field)?.parse().ok())
    };
    let born = lines
        .lines()
        .filter(|line| line.contains("sched:sched_wakeup_new:"));
    let born: BTreeSet<u64> = born.filter_map(|line| number(line, "pid=")).collect();
    let dead = lines.lines().filter(|line| {
        let state = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix("prev_state="));
        matches!(state, Some("X" | "Z"))
    });
    let dead: BTreeSet<u64> = dead.filter_map(|line| number(line, "prev_pid=")).collect();
    born.intersection(&dead).copied().collect()
}

/// The rows of `perf sched latency -p`.
fn perf_rows() -> BTreeMap<u64, Row> {
    let text = run("perf", &["sched", "latency", "-i", PERF, "-p", "-s", "pid"]).success();
    let number = |cell: &str| -> Option<f64> {
        let mut words = cell.split([' ', ':']);
        words.find_map(|word| word.parse().ok())
    };
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        let [task, runtime, switches, average, ..] = cells[..] else {
            return None;
        };
        let tid = task.trim().rsplit(':').next()?.parse().ok()?;
        let row = Row {
            runtime_ms: number(runtime)?,
            switches: number(switches)? as i64,
            average_ms: number(average)?,
        };
        Some((tid, row))
    };
    let rows: BTreeMap<u64, Row> = text.lines().filter_map(row).collect();
    assert!(!rows.is_empty(), "{text}");
    rows
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&kestrel(arguments).success()).unwrap()
}

#[test]
fn latencies_are_those_of_perf_task_by_task() {
    if run("sh", &["-c", "command -v perf"]).code != Some(0) {
        return skip("no perf in this guest");
    }
    record_both();
    let own_lines = kestrel(&["print", TRACE]).success();
    let (own, perf) = (
        about(&own_lines),
        about(&run("perf", &["script", "-i", PERF]).success()),
    );
    let rows = perf_rows();
    let document = json(&["sched", "latency", "--format", "json", TRACE]);
    let tasks = whole(&own_lines);
    let (mut compared, mut alike, mut close) = (0, 0, 0);
    for task in document["tasks"].as_array().unwrap() {
        let tid = task["tid"].as_u64().unwrap();
        let Some(row) = rows.get(&tid).filter(|_| tasks.contains(&tid)) else {
            continue;
        };
        // Records that one of both has and the other lacks: each changes figures by one switch at most.
        let unrecorded = |roles: &[&'static str]| -> i64 {
            let both = |role: &&'static str| {
                let of = |about: &About| about.get(&(tid, *role)).copied().unwrap_or(0);
                (of(&own) - of(&perf)).abs()
            };
            roles.iter().map(both).sum()
        };
        let (switches, charged) = (
            unrecorded(&[
                "prev_pid=",
                "next_pid=",
                "sched:sched_waking",
                "sched:sched_wakeup_new",
            ]),
            unrecorded(&["sched:sched_stat_runtime"]),
        );
        compared += 1;
        let what = format!("{task}: perf {row:?}, unrecorded {switches} and {charged}");
        let difference = task["switches"].as_i64().unwrap() - row.switches;
        assert!(difference.abs() <= switches, "{what}");
        if charged == 0 {
            // perf shows microseconds.
            let runtime = task["runtime_ns"].as_f64().unwrap() / 1e6;
            assert!((runtime - row.runtime_ms).abs() <= 0.001, "{what}");
        }
        if switches == 0 {
            alike += 1;
            // Each recorder stamps an event when it handles it, one after the other; a processor of this guest may stand still between the two.
            let average = task["average_ns"].as_f64().unwrap() / 1e6;
            close += usize::from((average - row.average_ms).abs() <= 1.0);
        }
    }
    println!(
        "{compared} tasks compared, {alike} of which have the same records, {close} with the same delays"
    );
    assert!(compared >= 8 && alike * 2 >= compared, "{compared} {alike}");
    assert!(close * 4 >= alike * 3, "{close} of {alike}");
    // Tasks of which both have as many records of this kind.
    let alike = |role: &'static str| -> BTreeSet<u64> {
        let has = |about: &About, tid| about.get(&(tid, role)).copied();
        let both = tasks.iter().copied();
        both.filter(|tid| has(&own, *tid) == has(&perf, *tid)).collect()
    };
    runs_are_those_of_perf(&alike("prev_pid="));
    processors_are_those_of_perf(&alike("next_pid="));
    wakers_are_those_of_perf(&alike("sched:sched_waking"));
}

/// As many runs of each of these tasks as perf has, and as long. perf names who leaves a CPU by the numbers of its sample, which a task has no more that was
/// waited for before it left: what it still ran, preempted or not, is of a task `-1` there.
fn runs_are_those_of_perf(tids: &BTreeSet<u64>) {
    // Its lines: its own sums leave out what tasks did that are dead at the end.
    let text = run("perf", &["sched", "timehist", "-i", PERF]).success();
    // `time [cpu]  comm[tid/pid]  wait  delay  run`, in ms.
    let run = |line: &str| -> Option<(String, f64)> {
        let (task, times) = line.split_once("] ")?.1.split_once("] ")?;
        let tid = task.rsplit_once('[')?.1.split('/').next()?.to_owned();
        Some((tid, times.split_whitespace().nth(2)?.parse().ok()?))
    };
    let mut rows: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for (tid, ran_ms) in text.lines().filter_map(run) {
        let row = rows.entry(tid).or_default();
        *row = (row.0 + 1, row.1 + ran_ms);
    }
    let nobody = rows.get("-1").map_or(0, |row| row.0);
    let summary = json(&["sched", "timehist", "-s", "--format", "json", TRACE]);
    let (mut compared, mut nameless, mut close) = (0, 0, 0);
    for task in summary["tasks"].as_array().unwrap() {
        let tid = task["tid"].as_u64().unwrap();
        if !tids.contains(&tid) {
            continue;
        }
        let (count, ran_ms) = rows.get(&tid.to_string()).copied().unwrap_or_default();
        let more = task["count"].as_u64().unwrap().checked_sub(count);
        assert!(more.is_some(), "{task}\n{text}");
        nameless += more.unwrap_or(0);
        if more == Some(0) {
            compared += 1;
            let ran = task["total_ns"].as_f64().unwrap() / 1e6;
            close += usize::from((ran - ran_ms).abs() <= 1.0 + ran_ms / 10.0);
        }
    }
    println!(
        "{compared} tasks have as many runs as perf counts, {close} of them run as long; perf has no task for {nameless} runs"
    );
    assert!(
        compared > 0 && nameless <= nobody,
        "{compared} {nameless}: {text}"
    );
    // As delays: a processor of this guest may stand still between the two recorders' stamps.
    assert!(close * 4 >= compared * 3, "{close} of {compared}: {text}");
}

/// Each of these tasks came to each CPU as often as perf's map shows.
fn processors_are_those_of_perf(tids: &BTreeSet<u64>) {
    let text = run("perf", &["sched", "map", "-i", PERF]).success();
    let (mut tasks, mut theirs, mut ours) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        // Two spaces, then a mark, two letters and a space for each CPU; behind the time what letters mean.
        let Some((place, (_, named))) = line.find('*').zip(line.split_once(" secs")) else {
            continue;
        };
        let letters = line[place + 1..].split_whitespace().next().unwrap();
        if let Some((letters, task)) = named.split_once(" => ") {
            let tid: u64 = task.trim().rsplit(':').next().unwrap().parse().unwrap();
            tasks.insert(letters.trim().to_owned(), tid);
        }
        if let Some(tid) = tasks.get(letters).filter(|tid| tids.contains(*tid)) {
            *theirs.entry((*tid, (place as u64 - 2) / 4)).or_insert(0) += 1;
        }
    }
    for line in kestrel(&["sched", "map", "--format", "json", TRACE])
        .success()
        .lines()
    {
        let change: Value = serde_json::from_str(line).unwrap();
        let (tid, cpu) = (&change["task"]["tid"], &change["cpu"]);
        let tid = tid.as_u64().unwrap();
        if tids.contains(&tid) {
            *ours.entry((tid, cpu.as_u64().unwrap())).or_insert(0) += 1;
        }
    }
    println!("{} tasks on CPUs, as perf's map has them", ours.len());
    assert!(ours.len() >= tids.len() && !tids.is_empty(), "{ours:?}");
    assert_eq!(ours, theirs);
}

/// Each of these tasks was woken by each other as often as perf shows. A waker that was waited for before has no number for perf.
fn wakers_are_those_of_perf(tids: &BTreeSet<u64>) {
    let text = run("perf", &["sched", "timehist", "-w", "-i", PERF]).success();
    let number = |task: &str| -> Option<i64> {
        let (_, numbers) = task.trim().rsplit_once('[')?;
        numbers.split(['/', ']']).next()?.parse().ok()
    };
    let mut theirs: BTreeMap<(i64, u64), u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((waker, woken)) = line.split_once("awakened: ") else {
            continue;
        };
        let waker = waker.split_once("] ").map_or("", |(_, waker)| waker);
        let Some(woken) = number(woken).and_then(|tid| u64::try_from(tid).ok()) else {
            continue;
        };
        // `<idle>` stands without a number.
        let pair = (number(waker).unwrap_or(0), woken);
        *theirs.entry(pair).or_default() += 1;
    }
    let document = json(&["sched", "wakeups", "--worst", "10", "--format", "json", TRACE]);
    let (mut compared, mut nameless) = (0, BTreeMap::new());
    for pair in document["pairs"].as_array().unwrap() {
        let tid = |who: &str| pair[who]["tid"].as_u64().unwrap();
        let (waker, woken) = (tid("waker") as i64, tid("woken"));
        if tids.contains(&woken) {
            let count = theirs.get(&(waker, woken)).copied().unwrap_or(0);
            let more = pair["count"].as_u64().unwrap().checked_sub(count);
            assert!(more.is_some(), "{pair}: perf {count}\n{text}");
            *nameless.entry(woken).or_insert(0) += more.unwrap_or(0);
            compared += 1;
        }
    }
    println!("{compared} pairs of wakers and woken are perf's");
    assert!(compared >= tids.len() && !tids.is_empty(), "{document}");
    for (woken, more) in nameless {
        let nobody = theirs.get(&(-1, woken)).copied().unwrap_or(0);
        assert!(more <= nobody, "{woken}: {more} of {nobody}\n{text}");
    }
    let worst = document["worst"].as_array().unwrap();
    let delays: Vec<u64> = worst.iter().map(|it| it["delay_ns"].as_u64().unwrap()).collect();
    assert!(
        delays.len() == 10 && delays.is_sorted_by(|left, right| left >= right),
        "{delays:?}"
    );
}

#[test]
fn pipes_wake_their_readers() {
    fs::write(LOAD, SCRIPT).unwrap();
    let _ = fs::remove_dir_all(TRACE);
    let printed = kestrel(&["sched", "record", "-g", "-o", TRACE, "--", "sh", LOAD]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let document = json(&["sched", "wakeups", "--worst", "3", "--format", "json", TRACE]);
    let pairs = document["pairs"].as_array().unwrap();
    let shells = pairs
        .iter()
        .filter(|pair| pair["waker"]["comm"] == "sh" && pair["woken"]["comm"] == "sh");
    assert!(shells.count() > 0, "{document}");
    let worst = document["worst"].as_array().unwrap();
    assert_eq!(worst.len(), 3, "{document}");
    let delays: Vec<u64> = worst.iter().map(|it| it["delay_ns"].as_u64().unwrap()).collect();
    assert!(delays.is_sorted_by(|left, right| left >= right), "{delays:?}");
    // The tasks that ran meanwhile fill the delay, but for lost records.
    for it in worst {
        let meanwhile = it["meanwhile"].as_array().unwrap();
        let sum: u64 = meanwhile.iter().map(|it| it["ns"].as_u64().unwrap()).sum();
        assert!(sum <= it["delay_ns"].as_u64().unwrap(), "{it}");
    }
    let runs = kestrel(&["sched", "timehist", "--format", "json", TRACE]).success();
    let slept = runs
        .lines()
        .any(|line| line.contains("nanosleep") && line.contains("\"stack\""));
    assert!(slept, "{runs}");
    let map = kestrel(&["sched", "map", TRACE]).success();
    assert!(map.lines().any(|line| line.contains(" A0 => ")), "{map}");
}
