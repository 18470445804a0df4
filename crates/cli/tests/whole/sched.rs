//! `kestrel sched`: what it records, what it answers, and what it refuses.

use crate::command::{WorkFolder, needs_tracing};
use serde_json::Value;

/// Two shells that wake each other, then end. The naps have a name of their own: others sleep on this machine, too.
const LOAD: &str = "ln -sf $(command -v sleep) nap; (for i in 1 2 3 4 5 6 7 8; do echo $i; ./nap 0.03; done) | while read n; do :; done";

fn recorded(place: &WorkFolder, options: &[&str]) {
    let arguments = [&["sched", "record"], options, &["--", "sh", "-c", LOAD]].concat();
    place.run(&arguments).succeeds();
}

#[test]
fn each_verb_answers() {
    needs_tracing!();
    let place = WorkFolder::new();
    recorded(&place, &[]);
    let document = &place.json_lines(&["sched", "latency"])[0];
    let tasks = document["tasks"].as_array().unwrap();
    // Each sleep is a process that is woken by its timer at least.
    let sleeps: Vec<&Value> = tasks.iter().filter(|task| task["comm"] == "nap").collect();
    assert!(sleeps.len() >= 7, "{document}");
    assert!(
        sleeps.iter().all(|task| task["runtime_ns"].as_u64() > Some(0)),
        "{document}"
    );
    // A nap is switched out twice: to sleep, and when it exits. The recording may end before the last nap's second switch: its parent is woken earlier.
    let left_once = sleeps.iter().filter(|task| task["switches"].as_u64() < Some(2));
    assert!(left_once.count() <= 1, "{document}");
    assert_eq!(document["runtime_from"], "sched_stat_runtime");
    let names = &place.json_lines(&["sched", "latency", "--by", "comm"])[0];
    let row = names["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["comm"] == "nap");
    assert_eq!(row.unwrap()["tasks"].as_u64(), Some(sleeps.len() as u64));
    for sort in ["max", "switch", "runtime"] {
        place.run(&["sched", "latency", "-s", sort]).succeeds();
    }

    // One whose second switch the recording has.
    let number = &sleeps
        .iter()
        .max_by_key(|task| task["switches"].as_u64())
        .unwrap()["tid"];
    let tid = number.to_string();
    let runs = place.json_lines(&["sched", "timehist", "-t", &tid]);
    assert!(runs.len() >= 2 && runs.iter().all(|run| run["task"]["tid"] == *number));
    let sums = &place.json_lines(&["sched", "timehist", "-s", "-t", &tid])[0];
    let run: u64 = runs.iter().map(|run| run["run_ns"].as_u64().unwrap()).sum();
    assert_eq!(sums["tasks"][0]["total_ns"].as_u64(), Some(run));
    assert_eq!(sums["tasks"][0]["count"].as_u64(), Some(runs.len() as u64));

    let text = place
        .run(&["sched", "timehist", "-wMnS", "--state"])
        .succeeds()
        .out;
    for word in ["awakened: ", "next: ", "preempt", "idle for"] {
        assert!(text.contains(word), "no {word}: {text}");
    }
    let map = place.run(&["sched", "map"]).succeeds().out;
    assert!(map.contains(" A0 => ") && !map.contains('\x1b'), "{map}");
    let wakeups = &place.json_lines(&["sched", "wakeups", "--worst", "2"])[0];
    assert_eq!(wakeups["worst"].as_array().unwrap().len(), 2);
    let pairs = wakeups["pairs"].as_array().unwrap();
    assert!(
        pairs.iter().any(|pair| pair["woken"]["comm"] == "sh"),
        "{wakeups}"
    );
}

#[test]
fn a_time_range_limits_the_counts() {
    needs_tracing!();
    let place = WorkFolder::new();
    recorded(&place, &["-o", "t"]);
    let all = place.json_lines(&["sched", "timehist", "t"]);
    let middle = all[all.len() / 2]["time_ns"].as_u64().unwrap();
    let seconds = format!("{}.{:09}", middle / 1_000_000_000, middle % 1_000_000_000);
    let upto = place.json_lines(&["sched", "timehist", "t", "--time", &format!(",{seconds}")]);
    assert!(upto.iter().all(|run| run["time_ns"].as_u64() <= Some(middle)));
    assert!(upto.len() > all.len() / 3 && upto.len() < all.len());
}

#[test]
fn stacks_say_where_tasks_left() {
    needs_tracing!();
    let place = WorkFolder::new();
    recorded(&place, &["-g"]);
    let runs = place.json_lines(&["sched", "timehist"]);
    let stack = |run: &Value| run["stack"].as_array().map_or(0, Vec::len);
    assert!(runs.iter().any(|run| stack(run) > 2));
    let without = place.json_lines(&["sched", "timehist", "-G"]);
    assert!(without.iter().all(|run| run.get("stack").is_none()));
}

#[test]
fn a_trace_without_the_events_is_refused_with_what_to_record() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = |event: &str| {
        place
            .run(&["record", "-a", "-e", event, "--", "sleep", "0.01"])
            .succeeds();
    };
    record("sched:sched_process_exit");
    for verb in ["latency", "timehist", "map", "wakeups"] {
        let answer = place.run(&["sched", verb]);
        answer.fails(
            1,
            &[
                "sched:sched_switch",
                "kestrel sched record",
                "-e sched:sched_switch",
            ],
        );
    }
    record("sched:sched_switch");
    for verb in ["latency", "wakeups"] {
        place.run(&["sched", verb]).fails(1, &["sched:sched_waking"]);
    }
    let runs = place.run(&["sched", "timehist"]).succeeds();
    assert!(runs.err.contains("no wakeups"), "{}", runs.err);
    place.run(&["sched", "map"]).succeeds();
}

#[test]
fn a_plain_recording_works_too() {
    needs_tracing!();
    let place = WorkFolder::new();
    let events = "sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new";
    place
        .run(&["record", "-a", "-e", events, "--", "sh", "-c", LOAD])
        .succeeds();
    let document = &place.json_lines(&["sched", "latency"])[0];
    assert_eq!(document["runtime_from"], "sched_switch");
    let tasks = document["tasks"].as_array().unwrap();
    assert!(tasks.iter().any(|task| task["comm"] == "nap"), "{document}");
}

#[test]
fn wrong_options_are_named() {
    let place = WorkFolder::new();
    place
        .run(&["sched", "record", "-p", "1", "--only-own"])
        .fails(2, &["no --only-own", "kestrel sched record -p"]);
    place
        .run(&["sched", "latency", "-C", "3-1"])
        .fails(2, &["holds no CPU"]);
    place
        .run(&["sched", "timehist", "--time", "2,1"])
        .fails(2, &["ends before it begins"]);
    place.run(&["sched", "map", "nowhere"]).fails(1, &["nowhere"]);
}
