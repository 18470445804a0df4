//! Recordings that perf and trace-cmd make of this machine, read by our commands: as many records as their own tools show, and ten of them field by field. Skipped where a tool is not
//! installed or may not record.

use crate::command::{WorkFolder, has, needs_tracing};
use serde_json::Value;
use std::process::{Command, Output};

/// Output of a tool that runs in this folder; `None` where it fails, which is reported.
fn tool(place: &WorkFolder, line: &str) -> Option<String> {
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(place.path())
        .output();
    match output {
        Ok(Output { status, stdout, .. }) if status.success() => {
            Some(String::from_utf8_lossy(&stdout).into_owned())
        }
        other => {
            eprintln!("skipped: {line}: {other:?}");
            None
        }
    }
}

/// Ten records, from the first to the last.
fn ten(records: usize) -> impl Iterator<Item = usize> {
    (0..10).map(move |n| n * (records - 1) / 9)
}

/// A process that opens files and sleeps.
const LOAD: &str = "sh -c 'for n in 1 2 3 4 5 6; do cat /etc/passwd > /dev/null; sleep 0.01; done'";

/// Whether a line of the tool's has the numbers of a switch, which it shows by the names of our fields.
fn has_switch(line: &str, record: &Value) -> bool {
    let fields = &record["fields"];
    ["prev_pid", "prev_prio", "next_pid", "next_prio"]
        .iter()
        .all(|name| line.contains(&format!("{name}={}", fields[name])))
}

/// Seconds with nine decimals in ns.
fn nanoseconds(text: &str) -> u64 {
    let (seconds, rest) = text.trim_end_matches(':').split_once('.').unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + rest.parse::<u64>().unwrap()
}

fn same_as_perf_script(place: &WorkFolder, file: &str) {
    let line = format!("perf script -i {file} --ns -G -F comm,pid,tid,cpu,time,event,trace");
    let Some(script) = tool(place, &line) else { return };
    let lines: Vec<&str> = script.lines().filter(|line| !line.trim().is_empty()).collect();
    let records = place.json_lines(&["print", "--records", file]);
    assert!(records.len() > 20, "{file}: {}", records.len());
    assert_eq!(records.len(), lines.len(), "{file}");
    for (record, line) in records.iter().zip(&lines) {
        // Names of the moment; a thread of which perf has none yet is shown by its number.
        let name = line.split_whitespace().next().unwrap();
        let ours = record["comm"].as_str().unwrap().replace("<idle>", "swapper");
        let number = format!(":{}", record["tid"]);
        assert!(name == ours || name == number, "{line}: {record}");
    }
    for at in ten(records.len()) {
        let (record, line) = (&records[at], lines[at]);
        let mut words = line.split_whitespace().skip(1);
        let (thread, cpu, time, event) = (words.next(), words.next(), words.next(), words.next());
        // Of a pipe perf shows the thread alone.
        let (pid, tid) = (&record["pid"], &record["tid"]);
        let shown = [format!("{pid}/{tid}"), tid.to_string()];
        assert!(shown.contains(&thread.unwrap().to_owned()), "{line}");
        assert_eq!(
            cpu.unwrap(),
            format!("[{:03}]", record["cpu"].as_u64().unwrap()),
            "{line}"
        );
        assert_eq!(
            nanoseconds(time.unwrap()),
            record["time"].as_u64().unwrap(),
            "{line}"
        );
        assert_eq!(
            event.unwrap(),
            format!("{}:", record["event"].as_str().unwrap()),
            "{line}"
        );
        if record["event"] == "sched:sched_switch" {
            assert!(has_switch(line, record), "{line}: {record}");
        }
    }
}

#[test]
fn recordings_of_perf_are_read_as_perf_script_reads_them() {
    needs_tracing!();
    if !has("perf") {
        return;
    }
    let place = WorkFolder::new();
    let events =
        "sched:sched_switch,sched:sched_process_exit,syscalls:sys_enter_openat,syscalls:sys_exit_openat";
    let line = format!("perf record -g -o plain -e {events} -- {LOAD} 2> /dev/null");
    if tool(&place, &line).is_none() {
        return;
    }
    same_as_perf_script(&place, "plain");
    // The last bytes describe the machine: records are complete without them, but the cut is reported.
    let whole = std::fs::read(place.path().join("plain")).unwrap();
    std::fs::write(place.path().join("cut"), &whole[..whole.len() - 1]).unwrap();
    let cut = place.run(&["print", "cut"]).succeeds();
    assert!(
        cut.err.contains("was cut") || cut.err.contains("longer than the file"),
        "{}",
        cut.err
    );
    let packed = format!("perf record -z -o packed -e {events} -- {LOAD} 2> /dev/null");
    if tool(&place, &packed).is_some() {
        same_as_perf_script(&place, "packed");
    }
    let piped = format!("perf record -o - -e {events} -- {LOAD} > piped 2> /dev/null");
    if tool(&place, &piped).is_some() {
        same_as_perf_script(&place, "piped");
    }
    // Names of the kernel are in no such file: those of the one that runs, which was recorded.
    let chains = place.run(&["report", "-g", "plain"]).succeeds().out;
    assert!(
        chains.contains("__schedule") && !chains.contains("[k] [unknown]"),
        "{chains}"
    );
    let report = place.run(&["report", "plain"]).succeeds();
    assert!(report.out.contains("sched:sched_switch"), "{}", report.out);
    let calls = place.run(&["report", "--syscalls", "plain"]).succeeds();
    assert!(calls.out.contains("openat"), "{}", calls.out);
    let program = "sched:sched_process_exit { @[args.comm] = count() }";
    let ran = place.run(&["run", "-e", program, "--trace", "plain"]).succeeds();
    assert!(ran.out.contains("@[cat]: 6"), "{}", ran.out);
    // Ours of it is the same.
    place.run(&["cut", "plain", "-o", "ours"]).succeeds();
    let lines = |trace| place.json_lines(&["print", "--records", trace]);
    assert_eq!(lines("ours"), lines("plain"));
}

/// Records as trace-cmd does, which itself wants function tracing where not every machine has it, then has it make the file of the kernel's pages.
const RING: &str = "ring=/sys/kernel/tracing/instances/kestrel-test-$$; mkdir $ring && trap 'echo 0 > $ring/events/enable; rmdir $ring' EXIT \
    && echo mono > $ring/trace_clock && echo $$ > $ring/set_event_pid && echo 1 > $ring/options/event-fork \
    && for event in sched/sched_switch sched/sched_waking sched/sched_process_exit syscalls/sys_enter_openat syscalls/sys_exit_openat; do \
           echo 1 > $ring/events/$event/enable || exit 1; done \
    && LOAD; echo 0 > $ring/events/enable; \
    for cpu in $ring/per_cpu/cpu*; do dd if=$cpu/trace_pipe_raw of=raw.${cpu##*cpu} bs=4096 iflag=nonblock 2> /dev/null; done; \
    trace-cmd restore -c -o head > /dev/null 2>&1 && trace-cmd restore -i head -o seven raw.* > /dev/null";

#[test]
fn recordings_of_trace_cmd_are_read_as_trace_cmd_report_reads_them() {
    needs_tracing!();
    if !has("trace-cmd") {
        return;
    }
    let place = WorkFolder::new();
    if tool(&place, &RING.replace("LOAD", LOAD)).is_none() {
        return;
    }
    for (file, make) in [
        ("seven", "true"),
        ("six", "trace-cmd convert -i seven -o six --file-version 6"),
        (
            "packed",
            "trace-cmd convert -i seven -o packed --file-version 7 --compression any",
        ),
    ] {
        if tool(&place, &format!("{make} > /dev/null 2>&1")).is_none() {
            continue;
        }
        let Some(report) = tool(&place, &format!("trace-cmd report -t -N -i {file} 2> /dev/null")) else {
            continue;
        };
        let lines: Vec<&str> = report.lines().filter(|line| line.contains(": s")).collect();
        let records = place.json_lines(&["print", "--records", file]);
        assert!(records.len() > 20, "{file}: {}", records.len());
        assert_eq!(records.len(), lines.len(), "{file}");
        for at in ten(records.len()) {
            let (record, line) = (&records[at], lines[at]);
            let time = line
                .split_whitespace()
                .find(|word| word.ends_with(':') && word.contains('.'));
            assert_eq!(
                nanoseconds(time.unwrap()),
                record["time"].as_u64().unwrap(),
                "{line}"
            );
            let cpu = format!("[{:03}]", record["cpu"].as_u64().unwrap());
            assert!(
                line.contains(&cpu) && line.contains(&format!("-{} ", record["tid"])),
                "{line}: {record}"
            );
            let event = record["event"].as_str().unwrap().rsplit(':').next().unwrap();
            assert!(line.contains(&format!(" {event}:")), "{line}: {record}");
            if event == "sched_switch" {
                assert!(has_switch(line, record), "{line}: {record}");
            }
        }
        let latency = place.run(&["sched", "latency", file]).succeeds();
        assert!(latency.out.contains("max delay ms"), "{}", latency.out);
    }
}

#[test]
fn files_that_are_no_recordings_are_refused() {
    let place = WorkFolder::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).unwrap();
    write("text", b"not a recording\n");
    place
        .run(&["report", "text"])
        .fails(1, &["text is no recording", "perf.data, trace.dat"]);
    write("perf.data", b"PERFILE2");
    place
        .run(&["report", "perf.data"])
        .fails(1, &["cannot read perf.data as perf.data: its head is cut"]);
    write("trace.dat", b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0");
    place
        .run(&["print", "trace.dat"])
        .fails(1, &["trace.dat as trace.dat", "header_page"]);
    write("old.dat", b"\x17\x08\x44tracing5\0\0\x08\0\x10\0\0");
    place
        .run(&["print", "old.dat"])
        .fails(1, &["version 5", "6 and 7"]);
}
