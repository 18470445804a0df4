//! Questions about recordings: filters, groups and latencies against what is counted from all lines here.

use crate::command::{WorkFolder, needs_tracing};
use serde_json::Value;
use std::collections::BTreeMap;

/// A recording of a shell and its children, and all its records.
fn recorded() -> (WorkFolder, Vec<Value>) {
    let place = WorkFolder::new();
    let script =
        "for n in 1 2 3; do cat /etc/passwd > /dev/null; done; head -c 20000 /dev/zero | wc -c > /dev/null";
    let events = "syscalls:sys_enter_read,syscalls:sys_exit_read,syscalls:sys_enter_write,syscalls:sys_exit_write,sched:sched_process_exit";
    place
        .run(&["record", "-e", events, "--", "sh", "-c", script])
        .succeeds();
    let records = lines(&place, &[]);
    assert!(records.len() > 20, "{}", records.len());
    (place, records)
}

fn lines(place: &WorkFolder, options: &[&str]) -> Vec<Value> {
    place.json_lines(&[&["print"], options].concat())
}

fn report(place: &WorkFolder, options: &[&str]) -> Value {
    let answer = place
        .run(&[&["report", "--format", "json"], options].concat())
        .succeeds();
    serde_json::from_str(&answer.out).unwrap()
}

/// A filter's condition on records.
type Wants<'a> = &'a dyn Fn(&Value) -> bool;

fn is(record: &Value, event: &str) -> bool {
    record["event"].as_str().unwrap().ends_with(event)
}

#[test]
fn filters_leave_the_same_records_as_a_full_scan() {
    needs_tracing!();
    let (place, all) = recorded();
    let begin = all[0]["time"].as_u64().unwrap();
    let end = all[all.len() - 1]["time"].as_u64().unwrap();
    let (pid, middle) = (all[all.len() / 2]["pid"].as_u64().unwrap(), begin.midpoint(end));
    let from = format!("{}ns", middle - begin);
    let at = format!("@{}.{:09}", middle / 1_000_000_000, middle % 1_000_000_000);
    let pids = pid.to_string();
    let wanted: [(&[&str], Wants<'_>); 9] = [
        (&["--where", "ret > 0 && ret < 20000"], &|r| {
            r["fields"]["ret"]
                .as_i64()
                .is_some_and(|ret| ret > 0 && ret < 20000)
        }),
        (&["--where", "comm == \"cat\" && pid > 1"], &|r| {
            r["comm"] == "cat"
        }),
        (&["-p", &pids], &|r| r["pid"] == pid),
        (&["-t", &pids], &|r| r["tid"] == pid),
        (&["--comm", "c?t,head"], &|r| {
            r["comm"] == "cat" || r["comm"] == "head"
        }),
        (&["-e", "sys_exit_*,sched_process_exit"], &|r| {
            !r["event"].as_str().unwrap().contains("enter")
        }),
        (&["--cpu", "1-4000"], &|r| r["cpu"] != 0),
        (&["--from", &from], &|r| r["time"].as_u64().unwrap() >= middle),
        (&["--to", &at], &|r| r["time"].as_u64().unwrap() <= middle),
    ];
    for (options, wants) in wanted {
        let expected: Vec<&Value> = all.iter().filter(|record| wants(record)).collect();
        let found = lines(&place, options);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{options:?}");
        let counted = if expected.is_empty() {
            0
        } else {
            report(&place, options)["records"].as_u64().unwrap()
        };
        assert_eq!(counted, expected.len() as u64, "{options:?}");
    }
}

#[test]
fn groups_count_the_lines() {
    needs_tracing!();
    let (place, all) = recorded();
    let mut expected: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for record in all.iter().filter(|record| is(record, "exit_read")) {
        let group = expected
            .entry(record["comm"].as_str().unwrap().to_owned())
            .or_default();
        *group = (group.0 + 1, group.1 + record["fields"]["ret"].as_i64().unwrap());
    }
    let options = [
        "-e",
        "sys_exit_read",
        "--by",
        "comm",
        "--value",
        "ret",
        "--sort",
        "comm",
    ];
    let answer = report(&place, &options);
    let groups = answer["groups"].as_array().unwrap().iter();
    let found: Vec<(String, (u64, i64))> = groups
        .map(|row| {
            let name = row["key"]["comm"].as_str().unwrap().to_owned();
            (
                name,
                (
                    row["count"].as_u64().unwrap(),
                    row["value"]["sum"].as_i64().unwrap(),
                ),
            )
        })
        .collect();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());

    let limited = report(&place, &["--by", "thread,ret > 0", "--limit", "1"]);
    let with = all
        .iter()
        .filter(|record| record["fields"].get("ret").is_some())
        .count() as u64;
    let first = limited["groups"][0]["count"].as_u64().unwrap();
    assert_eq!(first + limited["others"]["count"].as_u64().unwrap(), with);
    assert_eq!(limited["without"].as_u64().unwrap(), all.len() as u64 - with);
    let text = place
        .run(&["report", "--by", "thread,ret > 0", "--limit", "1"])
        .succeeds()
        .out;
    assert!(
        text.contains("thread") && text.contains("lack a field of thread, ret > 0"),
        "{text}"
    );
}

#[test]
fn latencies_are_the_times_between_the_lines_of_a_call() {
    needs_tracing!();
    let (place, all) = recorded();
    let mut begun: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut count, mut sum, mut max) = (0u64, 0u64, 0u64);
    for record in &all {
        let (tid, time) = (record["tid"].as_u64().unwrap(), record["time"].as_u64().unwrap());
        if is(record, "enter_read") {
            begun.insert(tid, time);
        } else if is(record, "exit_read")
            && let Some(begin) = begun.remove(&tid)
        {
            (count, sum, max) = (count + 1, sum + time - begin, max.max(time - begin));
        }
    }
    for pairs in [
        "syscalls:sys_enter_read,syscalls:sys_exit_read",
        "*read",
        "sys_enter_read,sys_exit_read,args.ret * 0 + tid",
    ] {
        let option = pairs.replace("args.ret * 0 + tid", "tid=tid");
        let answer = report(&place, &["--latency", &option]);
        let row = &answer["latencies"][0]["ns"];
        assert_eq!(
            (row["count"].as_u64(), row["sum"].as_u64(), row["max"].as_u64()),
            (Some(count), Some(sum), Some(max)),
            "{pairs}"
        );
        let histogram: u64 = row["histogram"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bucket| bucket["count"].as_u64().unwrap())
            .sum();
        assert_eq!(histogram, count);
    }
    let split = report(&place, &["--latency", "syscalls:*", "--by", "comm"]);
    assert!(
        split["latencies"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["key"]["comm"].is_string())
    );
    let text = place
        .run(&["report", "--latency", "sys_enter_read,sys_exit_read"])
        .succeeds()
        .out;
    assert!(text.contains("p99.9") && text.contains("|@"), "{text}");
}

#[test]
fn wrong_questions_are_explained() {
    needs_tracing!();
    let (place, _) = recorded();
    for (options, words) in [
        (
            &["print", "--where", "rett > 0"][..],
            &["no event of this trace has a field", "did you mean \"ret\""][..],
        ),
        (&["print", "--where", "ret >"], &["error"]),
        (&["print", "--where", "@x > 1"], &["was not recorded"]),
        (
            &["print", "-e", "sys_exit_raed"],
            &["no event of this trace is called", "hint: did you mean"],
        ),
        (&["print", "--from", "yesterday"], &["is no time"]),
        (&["print", "--cpu", "3-1"], &["greater"]),
        (&["report", "--sort", "count"], &["--by"]),
        (
            &["report", "--by", "comm", "--sort", "sum"],
            &["no column `sum`", "comm, count"],
        ),
        (
            &["report", "--by", "comm", "--value", "comm"],
            &["this is a string"],
        ),
        (&["report", "--latency", "sched:*"], &["is no pair of events"]),
        (
            &[
                "report",
                "--latency",
                "sys_enter_read,sys_exit_read",
                "--by",
                "ret",
            ],
            &[
                "`ret` means nothing where these pairs begin",
                "syscalls:sys_enter_read, and this is of the end",
            ],
        ),
    ] {
        place.run(options).fails(2, words);
    }
    place
        .run(&["print", "--where", "pid == 0 && tid == 1"])
        .fails(1, &["none of the events"]);
}

#[test]
fn times_are_counted_from_the_requested_start() {
    needs_tracing!();
    let (place, all) = recorded();
    let times: Vec<u64> = all
        .iter()
        .map(|record| record["time"].as_u64().unwrap())
        .collect();
    let shown = |from: &str| -> Vec<u64> {
        lines(&place, &["--time", from])
            .iter()
            .map(|record| record["time"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(shown("mono"), times);
    assert_eq!(
        shown("start"),
        times.iter().map(|time| time - times[0]).collect::<Vec<_>>()
    );
    assert_eq!(
        shown("delta").iter().sum::<u64>(),
        times[times.len() - 1] - times[0]
    );
    let day = place.run(&["print", "--time", "wall"]).succeeds().out;
    let first = day.lines().next().unwrap();
    assert!(
        first
            .split_whitespace()
            .any(|word| word.len() == 16 && word.matches(':').count() == 3),
        "{first}"
    );
}
