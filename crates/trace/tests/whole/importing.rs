//! Recordings of other tools read as ours: what we export comes back, streams of LTTng's kind bit by bit beside babeltrace2, and cut or damaged bytes give a word.

use crate::babeltrace::babeltrace;
use crate::converting::sample_as;
use crate::lttng_streams::{Packet, tsdl, without_context, write_lttng};
use kestrel_trace::calls::{Moment, Reader, Signatures};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::export::{Export, Json};
use kestrel_trace::import;
use serde_json::Value;
use std::path::Path;

/// All records of a recording as JSON, and what was lost.
pub(crate) fn read(path: &Path) -> (Vec<Value>, u64, Vec<String>) {
    let Trace {
        mut reader,
        symbols,
        processes,
        mut remarks,
        ..
    } = import::open(path).unwrap();
    let mut json = Json::new(symbols, processes);
    let mut lines = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        json.record(&record, &mut lines);
    }
    let losses = reader.losses();
    remarks.extend(losses.notes.iter().cloned());
    let lines = String::from_utf8(lines).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    (records.collect(), losses.lost, remarks)
}

/// The records of an event.
fn of<'v>(records: &'v [Value], event: &str) -> Vec<&'v Value> {
    records.iter().filter(|record| record["event"] == event).collect()
}

#[test]
fn an_exported_perf_data_file_is_imported_with_the_same_records() {
    let (_dir, file, exported) = sample_as("perf-data");
    let (records, lost, remarks) = read(&file);
    assert_eq!(remarks, Vec::<String>::new());
    assert_eq!(records.len(), exported.len());
    assert_eq!(lost, 12);
    for (one, other) in records.iter().zip(&exported) {
        for key in ["time", "cpu", "pid", "tid", "event"] {
            assert_eq!(one[key], other[key]);
        }
    }
    assert_eq!(
        of(&records, "sched:sched_switch"),
        of(&exported, "sched:sched_switch")
    );
}

#[test]
fn an_exported_trace_dat_file_is_imported_with_the_same_records() {
    let (_dir, file, exported) = sample_as("trace-dat");
    let (records, lost, remarks) = read(&file);
    assert_eq!(remarks, Vec::<String>::new());
    assert_eq!(records.len(), exported.len());
    assert_eq!(lost, 12);
    let mut switches: Vec<Value> = of(&exported, "sched:sched_switch").into_iter().cloned().collect();
    for switch in &mut switches {
        // The file has threads alone.
        switch["pid"] = switch["tid"].clone();
    }
    let mut found = of(&records, "sched:sched_switch");
    assert_eq!(found.len(), switches.len());
    // Of equal times the file has those of one CPU first.
    let order = |record: &Value| (record["time"].as_u64(), record["cpu"].as_u64());
    found.sort_by_key(|record| order(record));
    switches.sort_by_key(order);
    for (one, other) in found.into_iter().zip(&switches) {
        for key in ["time", "cpu", "pid", "tid", "fields"] {
            assert_eq!(one[key], other[key]);
        }
    }
}

/// The file that the first call opens, as the call has it: its text is in the argument's place.
fn first_open(path: &Path) -> String {
    let mut trace = import::open(path).unwrap();
    let mut calls = Reader::new(Signatures::default());
    let record = trace.reader.next().unwrap().unwrap();
    let Some(Moment::Entry { values, pieces, .. }) = calls.read(&record) else {
        panic!("{}", record.event.name);
    };
    assert_ne!(values[1], 0, "it is not NULL");
    String::from_utf8(pieces.get(1, 0).unwrap().to_vec()).unwrap()
}

#[test]
fn a_trace_of_lttngs_kind_is_read_as_the_kernels() {
    for (little, packetised) in [(true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        // LTTng has folders of its own around a trace.
        let trace = dir.path().join("session/kernel");
        write_lttng(&trace, little, packetised);
        let (records, lost, remarks) = read(dir.path());
        assert_eq!(remarks, Vec::<String>::new());
        assert_eq!((records.len(), lost), (51, 7));
        let opens = of(&records, "syscalls:sys_enter_openat");
        assert_eq!(opens.len(), 20);
        let args = serde_json::json!({"dfd": -100, "filename": "/etc/file7", "flags": 0o100000, "mode": 0});
        assert_eq!(opens[7]["fields"], args);
        assert_eq!(
            (&opens[7]["pid"], &opens[7]["tid"], &opens[7]["cpu"]),
            (&70.into(), &71.into(), &0.into())
        );
        // Half a GHz: two ns a cycle.
        let start = (1i64 << 27) - 50;
        let ns = |cycles: i64| Value::from(cycles * 2);
        assert_eq!(opens[7]["time"], ns(start + 700));
        assert_eq!(first_open(dir.path()), "/etc/file0");
        let switches = of(&records, "sched:sched_switch");
        assert_eq!(switches.len(), 10);
        assert_eq!(switches[9]["time"], ns(start + (1 << 27) + 5000 + 9000));
        let switch = &switches[2]["fields"];
        assert_eq!(
            (&switch["prev_pid"], &switch["next_comm"]),
            (&71.into(), &"swapper/0".into())
        );
        let [all] = of(&records, "my_all")[..] else {
            panic!()
        };
        let args = serde_json::json!({
            "three": -3, "thirteen": 0x1abc, "fraction": 2.5, "which": "-1", "_words_length": 3, "words": "[10, 20, 30]", "inner_one": 5,
            "inner_two": "deep", "tag": "letters", "choice": "abc", "texts": "[\"left\", \"right \\\"quoted\\\"\"]", "network": 0x0102_0304,
            "three_of": [-1, 0, 300], "extra": 9, "comm": "cat",
        });
        assert_eq!(all["fields"], args);
        let Some(output) = babeltrace(&["--clock-cycles"], &trace) else {
            return;
        };
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{out}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(out.lines().count(), records.len(), "{out}");
        for (line, cycles) in [
            ("filename = \"/etc/file7\"", start + 700),
            ("thirteen = 0x1ABC", start + (1 << 27) + 5500),
        ] {
            let line = out.lines().find(|it| it.contains(line)).unwrap();
            assert!(line.starts_with(&format!("[{:020}]", cycles)), "{line}");
        }
    }
}

/// Threads of the calls that return, with their names.
fn threads(path: &Path) -> Vec<(i64, String)> {
    let (records, ..) = read(path);
    of(&records, "syscalls:sys_exit_openat")
        .iter()
        .map(|record| {
            let name = record["comm"].as_str().unwrap_or_default();
            (record["tid"].as_i64().unwrap(), name.to_owned())
        })
        .collect()
}

/// A thread that has another name by the first switch of a later stream has the one of the earliest switch before it.
#[test]
fn names_before_the_first_switch_are_of_the_earliest_over_all_streams() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("metadata"), without_context()).unwrap();
    let mut packet = Packet::begin(true, 0, 0, 0, 0);
    packet.exit(100);
    packet.switch(200, (71, "sh"), (72, "dog"));
    std::fs::write(dir.path().join("channel0_0"), packet.end(512)).unwrap();
    let mut packet = Packet::begin(true, 0, 0, 0, 1);
    packet.switch(400, (71, "cat"), (0, "swapper/1"));
    std::fs::write(dir.path().join("channel0_1"), packet.end(512)).unwrap();
    assert_eq!(threads(dir.path()), [(71, "sh".to_owned())]);
}

/// A switch that does not say what it switches from leaves names that contexts gave.
#[test]
fn switches_without_names_take_none_away() {
    let dir = tempfile::tempdir().unwrap();
    let of_switch = tsdl(true)
        .lines()
        .find(|line| line.contains("_prev_comm"))
        .unwrap()
        .to_owned();
    let bare = of_switch.split_once("_prev_comm[16];").unwrap().1.to_owned();
    let metadata = tsdl(true).replace(&of_switch, &bare);
    std::fs::write(dir.path().join("metadata"), metadata).unwrap();
    let mut packet = Packet::begin(true, 0, 0, 0, 0);
    packet.event(2, 100, (70, 71, "cat"));
    packet.int(8, 64, 0);
    packet.event(0, 200, (70, 71, "cat"));
    for (size, value) in [(32, 71), (32, 120), (64, 0)] {
        packet.int(8, size, value);
    }
    packet.name("dog");
    packet.int(8, 32, 72);
    packet.int(8, 32, 120);
    std::fs::write(dir.path().join("channel0_0"), packet.end(512)).unwrap();
    assert_eq!(threads(dir.path()), [(71, "cat".to_owned())]);
}

/// Only the first switch says who ran before it: a later one that says more does not stand in for it.
#[test]
fn who_ran_before_a_switch_that_does_not_say_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let short = "event { name = \"sched_switch\"; id = 3; stream_id = 0; fields := struct { uint32_t _next_tid; }; };";
    std::fs::write(dir.path().join("metadata"), without_context() + short).unwrap();
    let mut packet = Packet::begin(true, 0, 0, 0, 0);
    packet.exit(100);
    packet.bare(3, 200);
    packet.int(8, 32, 72);
    packet.exit(300);
    packet.switch(400, (72, "dog"), (71, "cat"));
    std::fs::write(dir.path().join("channel0_0"), packet.end(512)).unwrap();
    let numbers: Vec<i64> = threads(dir.path()).iter().map(|(thread, _)| *thread).collect();
    assert_eq!(numbers, [0, 72]);
}

/// The thread that ran before the first switch is known from that switch; LTTng's sessions have no contexts unless they are asked for.
#[test]
fn records_before_the_first_switch_have_the_thread_that_it_switches_from() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = without_context().replace(r#"hostname = "far""#, r#"hostname = "f\x61\162"; mark = '\n'"#);
    std::fs::write(dir.path().join("metadata"), metadata).unwrap();
    let mut packet = Packet::begin(true, 0, 0, 0, 0);
    packet.exit(100);
    for (time, from, to) in [(200, (71, "cat"), (72, "dog")), (400, (72, "dog"), (71, "cat"))] {
        packet.switch(time, from, to);
        packet.exit(time + 100);
    }
    std::fs::write(dir.path().join("channel0_0"), packet.end(512)).unwrap();
    assert_eq!(import::open(dir.path()).unwrap().reader.info().hostname, "far");
    let (.., remarks) = read(dir.path());
    assert_eq!(remarks, Vec::<String>::new());
    let expected = [(71, "cat"), (72, "dog"), (71, "cat")];
    assert_eq!(
        threads(dir.path()),
        expected.map(|(tid, name)| (tid, name.to_owned()))
    );
    let mut packet = Packet::begin(true, 0, 0, 0, 0);
    packet.exit(100);
    std::fs::write(dir.path().join("channel0_0"), packet.end(512)).unwrap();
    let (records, _, remarks) = read(dir.path());
    assert_eq!((records.len(), &records[0]["tid"]), (1, &0.into()));
    assert!(
        remarks[0].contains("no record says of which thread it is"),
        "{remarks:?}"
    );
}

/// Tracers of others have numbers of threads or of parts of the machine there.
#[test]
fn records_of_a_number_that_no_cpu_has_are_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("metadata"), tsdl(true)).unwrap();
    let mut file = Vec::new();
    for (number, cpu) in [(0, 70_000), (1, 5), (2, 65_535), (3, 65_536)] {
        let time = 100 + number * 100;
        let mut packet = Packet::begin(true, time, number, 0, cpu);
        packet.event(2, time, (70, 71, "cat"));
        packet.int(8, 64, 3);
        file.extend(packet.end(512));
    }
    std::fs::write(dir.path().join("channel0_0"), file).unwrap();
    let (records, _, remarks) = read(dir.path());
    assert_eq!(remarks, Vec::<String>::new());
    let cpus: Vec<u64> = records.iter().map(|it| it["cpu"].as_u64().unwrap()).collect();
    assert_eq!(cpus, [0, 5, 65_535, 65_535]);
}

/// Times and numbers of packets that contradict each other are damage that can be known; events behind it keep their own times.
#[test]
fn times_and_numbers_that_contradict_each_other_are_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("metadata"), tsdl(true)).unwrap();
    // Packets by when they begin and their numbers, each with events at these times; one ends 20,000 cycles of 2 ns after it began.
    type Made<'a> = &'a [(i64, i64, &'a [i64])];
    let read_of = |packets: Made<'_>| {
        let mut file = Vec::new();
        for (begin, number, times) in packets {
            let mut packet = Packet::begin(true, *begin, *number, 0, 0);
            for time in *times {
                packet.event(2, *time, (70, 71, "cat"));
                packet.int(8, 64, 3);
            }
            file.extend(packet.end(512));
        }
        std::fs::write(dir.path().join("channel0_0"), file).unwrap();
        let (records, _, remarks) = read(dir.path());
        let times: Vec<u64> = records.iter().map(|it| it["time"].as_u64().unwrap()).collect();
        let after: Vec<u64> = times.iter().map(|time| time - times[0]).collect();
        (after, remarks.concat())
    };
    let (times, remarks) = read_of(&[(0, 0, &[10, 30]), (25_000, 1, &[25_010])]);
    assert_eq!((&times[..], &remarks[..]), (&[0, 40, 50_000][..], ""));
    let (times, remarks) = read_of(&[(0, 0, &[10, 24_000]), (25_000, 1, &[25_010])]);
    assert_eq!(times, [0, 39_980, 50_000]);
    assert!(
        remarks.contains("an event is later than its packet ends"),
        "{remarks}"
    );
    let (_, remarks) = read_of(&[(10_000, 0, &[10_010]), (5_000, 1, &[5_010])]);
    assert!(remarks.contains("a packet begins before an event"), "{remarks}");
    let (_, remarks) = read_of(&[(0, 4, &[10]), (25_000, 3, &[25_010])]);
    assert!(remarks.contains("not in the order of their numbers"), "{remarks}");
}

#[test]
fn metadata_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    write_lttng(&dir.path().join("a"), true, false);
    std::fs::write(dir.path().join("a/metadata"), "[{\"type\":\"preamble\"}]").unwrap();
    let error = import::open(&dir.path().join("a")).unwrap_err().to_string();
    assert!(error.contains("is no object"), "{error}");
    std::fs::write(
        dir.path().join("a/metadata"),
        "trace { major = 1; }; event { fields := no_type; };",
    )
    .unwrap();
    let error = import::open(&dir.path().join("a")).unwrap_err().to_string();
    assert!(error.contains("line 1: no_type is not a type"), "{error}");
}

/// Reads the first records of what may be damaged; gives their number and whether nothing was said to be wrong, or why it cannot be opened.
fn digest(path: &Path, most: usize) -> Result<(usize, bool), String> {
    let mut trace = import::open(path).map_err(|error| error.to_string())?;
    let mut records = 0;
    while records < most
        && let Some(record) = trace.reader.next().unwrap()
    {
        _ = record.fields().count();
        records += 1;
    }
    Ok((
        records,
        trace.reader.losses().is_none() && trace.remarks.is_empty(),
    ))
}

#[test]
fn a_trace_dat_of_version_7_reports_cuts_and_damage() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.dat");
    // Magic, version, byte order, size of a long, of a page; the compression and its version; the place of the list of sections.
    let mut head = b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0zstd\x001.5\0".to_vec();
    let list = head.len() as u64 + 8;
    head.extend_from_slice(&list.to_le_bytes());
    let section = |flags: u16, body: &[u8]| {
        let mut bytes = [0_u16.to_le_bytes(), flags.to_le_bytes()].concat();
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    };
    let packed = [
        9_u32.to_le_bytes().as_slice(),
        &64_u32.to_le_bytes(),
        b"not zstd!",
    ]
    .concat();
    for (rest, expected) in [
        (
            vec![],
            "it was truncated: it has 35 bytes, and its list of sections is at byte 35",
        ),
        (
            section(0, &[0; 32])[..20].to_vec(),
            "the section at byte 35 was truncated",
        ),
        (
            section(1, &packed),
            "the compressed section at byte 35 is damaged",
        ),
    ] {
        std::fs::write(&file, [head.as_slice(), &rest].concat()).unwrap();
        let why = digest(&file, 1).unwrap_err();
        assert!(why.contains(expected), "{why}");
        // One place in the file, not two.
        assert_eq!(why.matches("at byte").count(), 1, "{why}");
    }
}

#[test]
fn truncated_imports_are_reported() {
    for format in ["perf-data", "trace-dat"] {
        let (dir, file, exported) = sample_as(format);
        let bytes = std::fs::read(&file).unwrap();
        let cut = dir.path().join("cut");
        for tenth in 0..10 {
            let length = bytes.len() * tenth / 10 + tenth;
            std::fs::write(&cut, &bytes[..length]).unwrap();
            match digest(&cut, usize::MAX) {
                Ok((records, is_whole)) => assert!(
                    records < exported.len() && !is_whole,
                    "{format} {length}: {records}"
                ),
                Err(why) => assert!(why.contains("cut") && why.len() < 300, "{format} {length}: {why}"),
            }
        }
    }
    // Data that begin at a byte that no file has.
    let (dir, file, _) = sample_as("perf-data");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
    let far = dir.path().join("far");
    std::fs::write(&far, &bytes).unwrap();
    match digest(&far, usize::MAX) {
        Ok(read) => assert_eq!(read, (0, false)),
        Err(why) => assert!(!why.contains("os error"), "{why}"),
    }
    let dir = tempfile::tempdir().unwrap();
    write_lttng(dir.path(), true, false);
    let stream = dir.path().join("channel0_0");
    let bytes = std::fs::read(&stream).unwrap();
    for length in [1, 79, 80, 200, 4000, 4096 + 30, 4096 + 500] {
        std::fs::write(&stream, &bytes[..length]).unwrap();
        let (records, is_whole) = digest(dir.path(), usize::MAX).unwrap();
        assert!(records < 51 && !is_whole, "{length}: {records}");
    }
}

#[test]
fn damaged_imports_never_panic() {
    // Every byte of heads and some of the rest, each set to what lengths and kinds take ill.
    let damage = |bytes: &[u8], write: &dyn Fn(&[u8])| {
        let places = (0..200.min(bytes.len())).chain((200..bytes.len()).step_by(bytes.len() / 80 + 1));
        for (at, value) in places.zip([0xff, 0, 0x80, 0x7f, 1].into_iter().cycle()) {
            let mut damaged = bytes.to_vec();
            damaged[at] = value;
            write(&damaged);
        }
    };
    for format in ["perf-data", "trace-dat"] {
        let (_dir, file, _) = sample_as(format);
        let bytes = std::fs::read(&file).unwrap();
        damage(&bytes, &|damaged| {
            std::fs::write(&file, damaged).unwrap();
            _ = digest(&file, 100);
        });
    }
    let dir = tempfile::tempdir().unwrap();
    write_lttng(dir.path(), true, false);
    for file in ["channel0_0", "channel0_3", "metadata"] {
        let file = dir.path().join(file);
        let bytes = std::fs::read(&file).unwrap();
        damage(&bytes, &|damaged| {
            std::fs::write(&file, damaged).unwrap();
            _ = digest(dir.path(), 100);
        });
        std::fs::write(&file, &bytes).unwrap();
    }
}

/// LTTng's packets in user space have half a MiB as a rule: more than is in memory at a time, up to the last event of a file.
#[test]
fn a_packet_larger_than_the_window_is_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = "/* CTF 1.8 */
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; };
        stream {
            event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } t; };
        };
        event { name = \"e\"; fields := struct { integer { size = 32; align = 8; } n; string text; }; };";
    std::fs::write(dir.path().join("metadata"), metadata).unwrap();
    let (mut bytes, mut texts) = (Vec::new(), Vec::new());
    for number in 0..20_000_u32 {
        let text = "a text"[..number as usize % 7].to_owned();
        bytes.extend(u64::from(number).to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(text.bytes().chain([0]));
        texts.push(text);
    }
    std::fs::write(dir.path().join("stream"), bytes).unwrap();
    let (records, lost, remarks) = read(dir.path());
    assert_eq!((lost, remarks), (0, Vec::new()));
    assert_eq!(records.len(), texts.len());
    for ((number, text), record) in texts.iter().enumerate().zip(&records) {
        assert_eq!(record["fields"]["n"], number);
        assert_eq!(record["fields"]["text"], *text);
    }
}

/// Such a copy says of its tracer what the trace says that it was made of.
#[test]
fn babeltraces_copy_of_a_trace_is_imported_with_the_same_records() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    crate::writing::write(&ours, 700);
    let arguments = ["-o", "ctf", "-w", theirs.to_str().unwrap()];
    let Some(output) = babeltrace(&arguments, &ours) else {
        return;
    };
    assert!(output.status.success());
    let (copied, _, remarks) = read(&theirs);
    assert_eq!(remarks, Vec::<String>::new());
    let (written, ..) = read(&ours);
    assert_eq!(copied.len(), written.len());
    for (one, other) in copied.iter().zip(&written) {
        for key in ["time", "cpu", "event"] {
            assert_eq!(one[key], other[key]);
        }
    }
}

#[test]
fn a_folder_of_perfs_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("data"), b"PERFILE2 and so on").unwrap();
    let error = import::open(dir.path()).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("as perf.data: it is a folder, as `perf record --threads` writes"),
        "{error}"
    );
    // A folder with another file of that name is none.
    std::fs::write(dir.path().join("data"), b"else").unwrap();
    let error = import::open(dir.path()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("it has no metadata file"), "{error}");
}
