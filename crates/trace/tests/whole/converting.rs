//! Recordings as files of other tools, each read by that tool: as many records, and ten of them field by field beside our JSON. Skipped where the tool is not
//! installed.

use crate::babeltrace::babeltrace;
use crate::pages::{Cell, Ring, record};
use crate::rewriting::{records, rewrite};
use crate::sample;
use crate::writing::{sealed, write};
use kestrel_trace::convert::{OutputPath, RecordingContext, convert, find_format};
use kestrel_trace::ctf::directory;
use kestrel_trace::export::{Export, Json};
use kestrel_trace::summary::Summary;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Records of the sample, and how many of them its recorder lost.
const ALL: usize = 2100;
const LOST: u64 = 12;

/// Makes a file of a format of a trace; gives the number of records. A format of stacks alone has those with one.
fn convert_as(format: &str, trace: &Path, file: &Path, summary: Option<&Summary>) -> u64 {
    let mut opened = directory::open(trace).unwrap();
    let recording = RecordingContext {
        info: opened.reader.info().clone(),
        symbols: opened.symbols,
        processes: opened.processes,
        tasks: opened.tasks,
        ..RecordingContext::default()
    };
    let conversion = (find_format(format).unwrap().begin)(recording, OutputPath::at(file).unwrap()).unwrap();
    let converted = convert(&mut opened.reader, summary, &mut |_| true, conversion).unwrap();
    assert_eq!(converted.left_out > 0, format == "folded");
    converted.records - converted.left_out
}

/// The sample as a file of a format, and its records as JSON.
pub fn sample_as(format: &str) -> (TempDir, PathBuf, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let (trace, file) = (dir.path().join("trace"), dir.path().join("file"));
    write(&trace, 700);
    let records = convert_as(format, &trace, &file, Some(&sample::summary()));
    let left = std::fs::read_dir(dir.path()).unwrap();
    let left: Vec<_> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let ours = |name: &String| ["trace", "file", "file.kallsyms"].contains(&name.as_str());
    assert!(left.iter().all(ours), "{left:?}");
    let mut json = Json::new(sample::symbols(), sample::processes());
    let mut lines = Vec::new();
    let mut reader = directory::open(&trace).unwrap().reader;
    while let Some(record) = reader.next().unwrap() {
        json.record(&record, &mut lines);
    }
    let lines = String::from_utf8(lines).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let written = match format {
        "folded" => stacks(&lines).values().sum::<u64>() as usize,
        _ => ALL,
    };
    assert_eq!((records as usize, lines.len()), (written, ALL));
    (dir, file, lines)
}

/// Output of a tool; `None` where it is not installed.
fn printed(tool: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new(tool);
    command
        .args(arguments)
        .arg(file)
        .env("PAGER", "cat")
        .env("HOME", "/nowhere");
    match command.output() {
        Ok(output) => {
            let (out, err) = (
                String::from_utf8_lossy(&output.stdout).into_owned(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            );
            assert!(output.status.success(), "{out}{err}");
            assert!(!err.contains("libtraceevent"), "{err}");
            Some(out)
        }
        Err(error) => {
            eprintln!("skipped: {tool}: {error}");
            None
        }
    }
}

/// Ten records, from the first to the last.
fn ten(records: &[Value]) -> impl Iterator<Item = &Value> {
    // 13 and 5, the sample's period, have no common factor: every kind of record is among them.
    (0..10).map(|n| &records[n * 213 + n % 3])
}

/// How libtraceevent may write a value: numbers in the base that the event's format asks for.
fn spelled(value: &Value) -> Vec<String> {
    let bases = |bits: u64, size: u32| {
        let bits = bits & (u64::MAX >> (64 - size));
        [format!("0x{bits:x}"), format!("0{bits:o}")]
    };
    match value {
        Value::Number(number) => {
            let mut all = vec![number.to_string()];
            if let Some(bits) = number.as_i64().map(|it| it as u64).or(number.as_u64()) {
                all.extend([8, 16, 32, 64].into_iter().flat_map(|size| bases(bits, size)));
            }
            all
        }
        Value::Bool(value) => vec![u8::from(*value).to_string()],
        // Code in records has names; in the kernel's form it is an address.
        Value::String(text) => vec![text.clone()],
        other => panic!("{other}"),
    }
}

/// Whether a line of libtraceevent's plugin for switches has a field of one: `bash:1 [120] S ==> cat:2 [120]`.
fn switch_has_field(line: &str, name: &str, value: &Value) -> bool {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = match name {
        "prev_comm" => format!(": {value}:"),
        "next_comm" => format!(" ==> {value}:"),
        "prev_state" => format!("] {value} ==> "),
        "prev_prio" | "next_prio" => format!(" [{value}]"),
        _ => format!(":{value} ["),
    };
    line.contains(&words)
}

/// Whether a line of libtraceevent's has a field of a record.
fn has_field(line: &str, name: &str, value: &Value) -> bool {
    // `perf script` formats with libtraceevent's plugins where they are installed; `trace-cmd report -N` leaves them out.
    if line.contains(" ==> ") {
        return switch_has_field(line, name, value);
    }
    let name = match (name, value) {
        // Another field was called so already.
        ("arg_0", _) if value == &Value::from(5) => "arg_0_".to_owned(),
        _ => name.replace(' ', "_"),
    };
    let spelled: Vec<String> = match (name.as_str(), value) {
        // Code has names in records; in the kernel's form it is an address.
        ("caller", _) => vec!["0xffffffff81001005".to_owned()],
        ("flags", _) => vec!["O_A, B|0x8006".to_owned()],
        // A name that cannot stand in a format.
        ("event", Value::String(text)) if text.contains('"') => vec!["0x0".to_owned()],
        (_, Value::Array(all)) if all.iter().all(Value::is_number) => {
            let words: Vec<_> = all.iter().map(|word| word.to_string()).collect();
            // libtraceevent 1.9 writes arrays of 64-bit numbers as the kernel does, `{0x1,0x2}`.
            let bases: Vec<_> = all
                .iter()
                .filter_map(|word| Some(format!("{:#x}", word.as_u64()?)))
                .collect();
            vec![words.join(" "), format!("{{{}}}", bases.join(","))]
        }
        (_, Value::Array(all)) => {
            let words: Vec<_> = all.iter().map(|word| word.as_str().unwrap()).collect();
            vec![words.join(" <- "), format!("[{}]", words.join(", "))]
        }
        _ => spelled(value),
    };
    spelled.iter().any(|value| {
        let pair = format!(" {name}={value}");
        line.match_indices(&pair).any(|(at, _)| {
            let behind = &line[at + pair.len()..];
            behind.is_empty() || behind.starts_with(' ')
        })
    })
}

/// One of the lines has all these words and fields.
#[track_caller]
fn one_has(lines: &[String], words: &[String], fields: &[(&String, &Value)]) {
    let of = |line: &&String| words.iter().all(|word| line.contains(word));
    let candidates: Vec<&String> = lines.iter().filter(of).collect();
    let found = candidates
        .iter()
        .any(|line| fields.iter().all(|(name, value)| has_field(line, name, value)));
    assert!(found, "no {words:?} with {fields:?} among {candidates:#?}");
}

/// Lines, those joined that a text of a record has broken.
fn whole(lines: Vec<&str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in lines.into_iter().filter(|line| !line.is_empty()) {
        match all.last_mut() {
            Some(last) if !line.contains("] ") => *last += &format!("\n{line}"),
            _ => all.push(line.to_owned()),
        }
    }
    all
}

fn seconds(record: &Value) -> String {
    let time = record["time"].as_u64().unwrap();
    format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
}

#[test]
fn perf_reads_perf_data() {
    let (_dir, file, records) = sample_as("perf-data");
    let fields = "comm,pid,tid,cpu,time,event,trace,ip,sym";
    let arguments = ["script", "--ns", "--show-lost-events", "-F", fields, "-i"];
    let Some(out) = printed("perf", &arguments, &file) else {
        return;
    };
    let (frames, heads): (Vec<&str>, Vec<&str>) = out.lines().partition(|line| line.starts_with('\t'));
    let (lost, heads): (Vec<String>, Vec<String>) =
        whole(heads).into_iter().partition(|line| line.contains("LOST"));
    assert!(
        lost.len() == 1 && lost[0].trim().ends_with(&format!("lost {LOST}")),
        "{lost:?}"
    );
    assert_eq!(heads.len(), ALL, "{out}");
    for record in ten(&records) {
        let number = |name: &str| record[name].as_u64().unwrap();
        let words = [
            format!(" {}/{} ", number("pid"), number("tid")),
            format!(" [{:03}] ", number("cpu")),
            format!(" {}: ", seconds(record)),
            format!(" {}: ", record["event"].as_str().unwrap()),
            record["comm"].as_str().unwrap_or_default().to_owned(),
        ];
        let fields = record["fields"].as_object().unwrap().iter();
        let fields = fields.filter(|(name, _)| !matches!(name.as_str(), "kstack" | "ustack"));
        one_has(&heads, &words, &fields.collect::<Vec<_>>());
    }
    // Call chains: a line for each frame, as many as the records have.
    let stacks = |record: &Value| {
        let frames = ["kstack", "ustack"].map(|name| record["fields"][name].as_array().map_or(0, Vec::len));
        frames.iter().sum::<usize>()
    };
    assert_eq!(frames.len(), records.iter().map(stacks).sum::<usize>());
    // Names of the kernel's code from the recording's own.
    let symbols = file.with_extension("kallsyms");
    let arguments = [
        "script",
        "-F",
        "ip,sym",
        "--kallsyms",
        symbols.to_str().unwrap(),
        "-i",
    ];
    let out = printed("perf", &arguments, &file).unwrap();
    assert!(
        out.contains("vfs_read+0x10") || out.contains(" vfs_read"),
        "{out}"
    );
    let delays = printed("perf", &["sched", "latency", "-i"], &file).unwrap();
    assert!(delays.contains("lost events (12 out of "), "{delays}");
    let report = printed("perf", &["report", "--stdio", "-s", "comm", "-i"], &file).unwrap();
    assert!(
        report.contains("of event 'kprobe:do_exit'") && report.contains("100.00%"),
        "{report}"
    );
}

#[test]
fn trace_cmd_reads_trace_dat() {
    let (_dir, file, records) = sample_as("trace-dat");
    let Some(out) = printed("trace-cmd", &["report", "-t", "-N", "-i"], &file) else {
        return;
    };
    let lines = whole(out.lines().skip(1).collect());
    assert_eq!(lines.len(), ALL, "{out}");
    for record in ten(&records) {
        let number = |name: &str| record[name].as_u64().unwrap();
        let (_, event) = record["event"].as_str().unwrap().rsplit_once(':').unwrap();
        let words = [
            format!("-{} ", number("tid")),
            format!(" [{:03}] ", number("cpu")),
            format!(" {}: ", seconds(record)),
            // Names of the kernel's events have no other characters.
            format!(" {}:", event.replace(['"', '\\', '+'], "_")),
            record["comm"].as_str().unwrap_or_default().to_owned(),
        ];
        let fields = record["fields"].as_object().unwrap().iter();
        one_has(&lines, &words, &fields.collect::<Vec<_>>());
    }
    let counts = printed("trace-cmd", &["report", "--stat", "-i"], &file).unwrap();
    assert!(counts.contains(&format!("dropped events: {LOST}")), "{counts}");
}

/// Output of a Python program about a file, a value for each line; `None` where it or the package that it needs is not installed. `cargo xtask test`
/// installs them.
fn python(package: &str, program: &str, file: &Path) -> Option<Vec<Value>> {
    let has = Command::new("python3")
        .args(["-c", &format!("import {package}")])
        .output();
    if !has.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: python3 has no {package}");
        return None;
    }
    let out = printed("python3", &["-c", program], file)?;
    let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
    Some(lines.collect())
}

/// Records with the number of records that are alike: order among equal times is no format's.
fn sorted(records: impl IntoIterator<Item = Value>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for record in records {
        *all.entry(record.to_string()).or_default() += 1;
    }
    all
}

/// The records as the reader of Perfetto's schema has them: of the scheduler's events what its messages have.
#[test]
fn its_schema_reads_perfetto() {
    let (_dir, file, records) = sample_as("perfetto");
    let program = include_str!("readers/perfetto.py");
    let Some(mut read) = python(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2",
        program,
        &file,
    ) else {
        return;
    };
    let lost = read.pop().unwrap();
    assert_eq!(lost, serde_json::json!({"lost": {"1": LOST}}));
    let expected = records.into_iter().map(|mut record| {
        let fields = record["fields"].as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null());
        if record["event"] == "sched:sched_switch" {
            // A number of the kernel's; names of threads are the fields'.
            let state = ["R", "S", "D", "S|D"]
                .iter()
                .position(|name| record["fields"]["prev_state"] == *name);
            record["fields"]["prev_state"] = state.unwrap().into();
            record.as_object_mut().unwrap().remove("comm");
            record.as_object_mut().unwrap().remove("pid");
        }
        record
    });
    let (read, expected) = (sorted(read), sorted(expected));
    for (record, times) in &expected {
        assert_eq!(read.get(record), Some(times), "{record}");
    }
    assert_eq!(read.len(), expected.len());
}

#[test]
fn chrome_json_has_the_same_fields() {
    let (_dir, file, records) = sample_as("chrome");
    let text = std::fs::read_to_string(file).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let events = all["traceEvents"].as_array().unwrap();
    let mut names: Map<String, Value> = Map::new();
    let mut read = Vec::new();
    for event in events {
        if event["ph"] == "M" {
            names.insert(event["tid"].to_string(), event["args"]["name"].clone());
            continue;
        }
        assert_eq!((&event["ph"], &event["s"]), (&"i".into(), &"t".into()));
        let mut fields = event["args"].clone();
        let cpu = fields.as_object_mut().unwrap().remove("cpu").unwrap();
        let mut record = serde_json::json!({
            "cpu": cpu, "pid": event["pid"], "tid": event["tid"], "event": event["name"], "fields": fields,
        });
        if let Some(name) = names.get(&event["tid"].to_string()) {
            record["comm"] = name.clone();
        }
        read.push(record);
    }
    assert_eq!(read.len(), ALL);
    let times: Vec<u64> = records
        .iter()
        .map(|record| record["time"].as_u64().unwrap())
        .collect();
    let untimed = records.into_iter().map(|mut record| {
        record.as_object_mut().unwrap().remove("time");
        record
    });
    for (read, expected) in read.iter().zip(untimed) {
        assert_eq!(*read, expected);
    }
    // To the nanosecond, as text: a binary fraction may not hold it.
    let shown = text.lines().filter_map(|line| line.split_once("\"ts\":"));
    let shown = shown.map(|(_, rest)| {
        rest.trim_end_matches([',', '}'])
            .replace('.', "")
            .parse()
            .unwrap()
    });
    assert_eq!(shown.collect::<Vec<u64>>(), times);
}

/// 17 events of CPU 0 were lost before its record 200.
#[test]
fn losses_are_where_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, file) = (dir.path().join("trace"), dir.path().join("file"));
    let mut writer = directory::create(&trace, sample::info(), false).unwrap();
    let mut ring = Ring::new(sample::UUID, 0, 0);
    for n in 0..400 {
        if n == 200 {
            ring.leave();
            ring.lost = 17;
        }
        ring.push(
            n * 1000,
            &record(&sample::crooked(), n * 1000, 1, 1, &[Cell::U(n)]),
        );
    }
    writer.append(0, 0, &sealed(&mut ring)).unwrap();
    drop(writer);
    let lost_before = |out: &str, words: &str| {
        let lines: Vec<&str> = out.lines().collect();
        let at = lines.iter().position(|line| line.contains(words)).expect(out);
        lines[at..]
            .iter()
            .find(|line| line.contains("crooked"))
            .map(|line| (*line).to_owned())
    };
    assert_eq!(convert_as("trace-dat", &trace, &file, None), 400);
    if let Some(out) = printed("trace-cmd", &["report", "-t", "-i"], &file) {
        let next = lost_before(&out, "CPU:0 [17 EVENTS DROPPED]").unwrap();
        assert!(next.contains(" 0.000200000: "), "{next}");
    }
    assert_eq!(convert_as("perf-data", &trace, &file, None), 400);
    let arguments = ["script", "--ns", "--show-lost-events", "-i"];
    if let Some(out) = printed("perf", &arguments, &file) {
        let next = lost_before(&out, "lost 17").unwrap();
        assert!(next.contains(" 0.000200000: "), "{next}");
    }
}

/// Stacks from the outermost frame to the innermost, and how many records have each: from JSON.
fn stacks(records: &[Value]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for record in records {
        let frames = |name: &str| record["fields"][name].as_array().cloned();
        let (Some(kernel), Some(user)) = (frames("kstack"), frames("ustack")) else {
            continue;
        };
        let frames = user.iter().rev().chain(kernel.iter().rev()).map(|frame| {
            let name = frame.as_str().unwrap().split(['+', ' ']).next().unwrap();
            if name.starts_with("0x") { "[unknown]" } else { name }
        });
        let name = record["comm"].as_str().unwrap();
        let stack: Vec<&str> = std::iter::once(name).chain(frames).collect();
        *all.entry(stack.join(";")).or_default() += 1;
    }
    all
}

#[test]
fn folded_lines_count_the_records_with_stacks() {
    let (_dir, file, records) = sample_as("folded");
    let text = std::fs::read_to_string(file).unwrap();
    let read = text.lines().map(|line| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), count.parse().unwrap())
    });
    assert_eq!(read.collect::<BTreeMap<String, u64>>(), stacks(&records));
}

#[test]
fn pprof_reads_a_profile() {
    let (_dir, file, records) = sample_as("pprof");
    let Some(out) = printed("go", &["tool", "pprof", "-raw"], &file) else {
        return;
    };
    let (samples, rest) = out.split_once("Locations\n").unwrap();
    let (_, samples) = samples.split_once("events/count\n").unwrap();
    let (locations, mappings) = rest.split_once("Mappings\n").unwrap();
    assert!(
        mappings.contains("[kernel.kallsyms]") && mappings.contains("[ext4]"),
        "{mappings}"
    );
    // `     2: 0x0 M=1 vfs_read :0 s=0`.
    let names: BTreeMap<&str, &str> = locations
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .map(|(number, rest)| {
            (
                number,
                rest.split(' ')
                    .find(|word| !word.contains("0x") && !word.starts_with("M="))
                    .unwrap(),
            )
        })
        .collect();
    let mut read: BTreeMap<String, u64> = BTreeMap::new();
    let mut lines = samples.lines().peekable();
    while let Some(line) = lines.next() {
        let (count, frames) = line.trim().split_once(": ").unwrap();
        let thread = lines
            .next_if(|line| line.contains("thread:["))
            .map_or("", |line| {
                line.trim().trim_start_matches("thread:[").trim_end_matches(']')
            });
        let frames = frames.split_whitespace().rev().map(|number| names[number]);
        let stack: Vec<&str> = std::iter::once(thread).chain(frames).collect();
        *read.entry(stack.join(";")).or_default() += count.parse::<u64>().unwrap();
    }
    assert_eq!(read.values().sum::<u64>() as usize, ALL);
    read.retain(|stack, _| !stack.contains("[no"));
    let mut expected = stacks(&records);
    expected.retain(|stack, _| stack.contains(';'));
    assert_eq!(read, expected, "{out}");
}

#[test]
fn duckdb_reads_parquet() {
    let (_dir, folder, records) = sample_as("parquet");
    let Some(read) = python("duckdb", include_str!("readers/parquet.py"), &folder) else {
        return;
    };
    let (types, read): (Vec<Value>, Vec<Value>) = read.into_iter().partition(|it| it.get("types").is_some());
    let of = |event: &str| &types.iter().find(|it| it["event"] == event).unwrap()["types"];
    let switch = of("sched:sched_switch");
    let of_switch = ["time", "cpu", "comm", "prev_prio"].map(|name| &switch[name]);
    assert_eq!(of_switch, ["UBIGINT", "UINTEGER", "VARCHAR", "INTEGER"]);
    let all = of("kprobe:every\"thing\\+0x4");
    let of_all = ["small", "mode", "buf", "flag", "arg 0", "args", "kstack"].map(|name| &all[name]);
    let expected = [
        "TINYINT",
        "USMALLINT",
        "UBIGINT",
        "BOOLEAN",
        "BIGINT",
        "UBIGINT[]",
        "VARCHAR[]",
    ];
    assert_eq!(of_all, expected);
    let expected = records.into_iter().map(|mut record| {
        for (name, value) in record["fields"].as_object_mut().unwrap() {
            match (name.as_str(), &*value) {
                // An address is a number.
                ("buf", _) => *value = 0x7fff_0000_1000_u64.into(),
                // A value with names is a text.
                ("event" | "wide" | "empty" | "odd", Value::Number(number)) => {
                    *value = number.to_string().into()
                }
                _ => {}
            }
        }
        record
    });
    let (read, expected) = (sorted(read), sorted(expected));
    for (record, times) in &expected {
        assert_eq!(read.get(record), Some(times), "{record}");
    }
    assert_eq!(read.len(), expected.len());
}

#[test]
fn babeltrace_reads_compressed_traces() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(&at("plain"), 700);
    rewrite(&at("plain"), &at("packed"), Some(3), |_| true);
    let count = convert_as("ctf", &at("packed"), &at("ctf"), Some(&sample::summary()));
    assert_eq!(count as usize, ALL);
    // The same records; those of one time may have changed places.
    let (all, trace) = records(&at("ctf"));
    let bytes = |all: Vec<(u32, u32, Vec<u8>)>| {
        let mut all: Vec<_> = all.into_iter().map(|(_, cpu, bytes)| (cpu, bytes)).collect();
        all.sort();
        all
    };
    assert!(bytes(all) == bytes(records(&at("packed")).0));
    assert_eq!(
        (trace.symbols, trace.processes),
        (sample::symbols(), sample::processes())
    );
    let Some(output) = babeltrace(&[], &at("ctf")) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, ALL);
    // A directory that is no trace is not replaced.
    std::fs::write(at("ctf").join("thesis"), "").unwrap();
    let opened = directory::open(&at("packed")).unwrap();
    let recording = RecordingContext {
        info: opened.reader.info().clone(),
        ..RecordingContext::default()
    };
    let begun = (find_format("ctf").unwrap().begin)(recording, OutputPath::at(&at("ctf")).unwrap());
    assert!(begun.and_then(|conversion| conversion.finish()).is_err());
    assert!(at("ctf/thesis").exists() && !at(".ctf.new").exists());
}
