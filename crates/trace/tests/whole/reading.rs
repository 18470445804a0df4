//! Reading: everything that was written comes back in order of time; what is missing or broken is counted and named.

use crate::pages::{Cell, Ring, record};
use crate::sample::{self, UUID, crooked, info};
use crate::writing::{sealed, write};
use kestrel_trace::Error;
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::read::{Losses, Reader};
use kestrel_trace::packet::{HEADER, offset, whole as page_without_records};
use kestrel_trace::process::Processes;
use kestrel_trace::report::text;
use kestrel_trace::summary::{EventCount, absent_lines};
use kestrel_trace::symbol::addresses;
use kestrel_trace::value::Value;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

fn crooked_ring(count: u64) -> Ring {
    let mut ring = Ring::new(UUID, 0, 0);
    more(&mut ring, 0, count);
    ring
}

fn more(ring: &mut Ring, from: u64, count: u64) {
    for n in from..from + count {
        ring.push(1000 + n, &record(&crooked(), 1000 + n, 1, 1, &[Cell::U(n)]));
    }
}

fn read(streams: &[&[u8]]) -> (Vec<(u64, u32)>, Losses) {
    let named = streams
        .iter()
        .enumerate()
        .map(|(i, bytes)| (format!("main_{i}"), *bytes));
    let mut reader = Reader::new(info(), named.collect());
    let mut seen = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        seen.push((record.time_ns, record.cpu));
    }
    assert!(reader.next().unwrap().is_none(), "the end stays the end");
    (seen, reader.losses())
}

#[test]
fn all_records_come_back_in_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 500);
    let mut trace = directory::open(dir.path()).unwrap();
    let mut expected: Vec<u64> = sample::streams(500)
        .into_iter()
        .flat_map(|stream| stream.times)
        .collect();
    expected.sort_unstable();
    let mut times = Vec::new();
    while let Some(record) = trace.reader.next().unwrap() {
        times.push(record.time_ns);
    }
    assert_eq!(times, expected);
    assert!(trace.reader.losses().is_none(), "{:?}", trace.reader.losses());
    assert_eq!(trace.reader.info(), &info());
    assert_eq!(trace.summary, Some(sample::summary()));
    assert_eq!(trace.symbols, sample::symbols());
    assert_eq!(trace.processes, sample::processes());
}

#[test]
fn every_field_has_the_value_that_was_written() {
    let mut streams = sample::streams(11);
    let bytes = sealed(&mut streams[0].ring);
    let mut reader = Reader::new(info(), vec![("main_0".into(), bytes.as_slice())]);
    let mut count = 0;
    while let Some(record) = reader.next().unwrap() {
        if record.event.name != sample::everything().name {
            continue;
        }
        let n = count * 5;
        count += 1;
        assert_eq!((record.pid, record.tid), (100, 101));
        for ((field, value), cell) in record.fields().zip(sample::everything_cells(n)) {
            match (value, cell) {
                (Value::Text(found), Cell::T(text)) => assert_eq!(found, text, "{}", field.name),
                (Value::Stack(found), Cell::A(frames)) => {
                    assert_eq!(found.iter().collect::<Vec<_>>(), frames)
                }
                (Value::Array(found), Cell::A(all)) => {
                    assert_eq!(found.iter().map(|v| v.as_u64().unwrap()).collect::<Vec<_>>(), all);
                }
                (Value::Array(found), Cell::T(_)) => {
                    assert_eq!(
                        found.iter().map(|v| v.as_text().unwrap()).collect::<Vec<_>>(),
                        ["abc", "d"]
                    );
                }
                (found, Cell::U(bits)) => {
                    let mask = u64::MAX >> (64 - 8 * field.ty.fixed_size());
                    assert_eq!(found.as_u64().unwrap() & mask, bits & mask, "{}", field.name);
                }
                other => panic!("{}: {other:?}", field.name),
            }
        }
    }
    assert_eq!(count, 3);
}

#[test]
fn equal_times_keep_the_order_of_streams() {
    let make = |cpu| {
        let mut ring = Ring::new(UUID, 0, cpu);
        for time in [5, 5, 6] {
            ring.push(time, &record(&crooked(), time, 1, 1, &[Cell::U(0)]));
        }
        sealed(&mut ring)
    };
    let (a, b) = (make(0), make(1));
    assert_eq!(
        read(&[&a, &b]).0,
        [(5, 0), (5, 0), (5, 1), (5, 1), (6, 0), (6, 1)]
    );
}

#[test]
fn discarded_events_and_missing_packets_are_counted() {
    let mut ring = crooked_ring(300);
    ring.lost = 17;
    ring.skip_packets(4);
    more(&mut ring, 300, 10);
    let (seen, losses) = read(&[&sealed(&mut ring)]);
    assert_eq!(seen.len(), 310);
    assert_eq!(
        (losses.lost, losses.packets_absent, losses.packets_damaged),
        (17, 4, 0)
    );
    assert!(losses.notes.is_empty());
}

/// `gap_ns` of each record of a trace: the time up to which records may be missing.
fn gaps(streams: &[&[u8]]) -> Vec<(u64, u64)> {
    let streams = streams.iter().enumerate();
    let streams = streams
        .map(|(index, bytes)| (format!("main_{index}"), *bytes))
        .collect();
    let mut reader = Reader::new(info(), streams);
    let mut all = Vec::new();
    while let Some((record, gap_ns)) = reader.next_with_gap().unwrap() {
        all.push((record.time_ns, gap_ns));
    }
    all
}

#[test]
fn up_to_when_records_may_be_missing_is_known() {
    let whole = sealed(&mut crooked_ring(1000));
    assert!(gaps(&[&whole]).iter().all(|(_, gap_ns)| *gap_ns == 0));
    // The losses that a packet counts may lie before or after its records.
    let mut ring = crooked_ring(300);
    ring.lost = 17;
    more(&mut ring, 300, 700);
    let bytes = sealed(&mut ring);
    let begin = |packet: usize| u64::from_le_bytes(bytes[packet * 4096 + 24..][..8].try_into().unwrap());
    let all = gaps(&[&bytes]);
    let (before, within, behind) = (all[0], all[200], all[400]);
    assert_eq!((before.1, within.1, behind.1), (0, u64::MAX, begin(2)));
    assert!(behind.0 > begin(2));
    // Records of another CPU have the same gap.
    assert_eq!(gaps(&[&bytes, &whole]).last().unwrap().1, begin(2));
    // Packets are missing between two, or before the first.
    let found = gaps(&[&[&whole[..4096], &whole[3 * 4096..]].concat()]);
    assert_eq!((found[0].1, found.last().unwrap().1), (0, begin(3)));
    assert_eq!(gaps(&[&whole[3 * 4096..]])[0].1, begin(3));
    // Behind the place where a file was cut nothing is known.
    let found = gaps(&[&whole[..4096 + 100], &whole]);
    assert_eq!(found.last().unwrap().1, u64::MAX);
}

#[test]
fn losses_of_a_last_packet_end_with_it() {
    let whole = sealed(&mut crooked_ring(1000));
    // The last page with records counts the losses, as in a ring that is full.
    let mut ring = crooked_ring(300);
    let before = sealed(&mut crooked_ring(300));
    ring.lost = 17;
    ring.leave();
    let mut reported = ring.bytes();
    let last = reported.len() - 4096;
    reported[last + offset::TIMESTAMP_END as usize..][..8].copy_from_slice(&1500_u64.to_le_bytes());
    let found = gaps(&[&reported, &whole]);
    let of = |time: u64| found.iter().rfind(|(at, _)| *at == time).unwrap().1;
    assert_eq!((of(1290), of(1301), of(1999)), (u64::MAX, 1500, 1500));
    // Behind a damaged packet the gap stays open.
    reported.extend_from_slice(&[0; 4096]);
    assert_eq!(gaps(&[&reported, &whole]).last().unwrap(), &(1999, u64::MAX));
    // The same, reported by a packet without records.
    let mut empty = before[before.len() - 4096..].to_vec();
    let mut put = |at: u32, word: u64| empty[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
    put(offset::TIMESTAMP_BEGIN, 1299);
    put(offset::TIMESTAMP_END, 1400);
    put(offset::CONTENT_SIZE, u64::from(HEADER) * 8);
    put(offset::SEQUENCE, 2);
    put(offset::DISCARDED, 17);
    put(offset::COMMITTED, page_without_records(0));
    let reported = [before.as_slice(), &empty].concat();
    let found = gaps(&[&reported, &whole]);
    assert_eq!((found[0].1, found.last().unwrap()), (0, &(1999, 1400)));
}

#[test]
fn losses_of_a_first_packet_that_is_not_the_rings_first_are_of_unknown_time() {
    let mut ring = crooked_ring(0);
    ring.skip_packets(3);
    more(&mut ring, 0, 10);
    ring.lost = 17;
    ring.leave();
    more(&mut ring, 500, 500);
    let bytes = sealed(&mut ring);
    let found = gaps(&[&bytes]);
    assert_eq!((found[0].1, found[9].1), (u64::MAX, u64::MAX));
    assert_eq!((found[10].1, found.last().unwrap().1), (1500, 1500));
    // How many of them were lost before it is not known: none is counted.
    assert_eq!(read(&[&bytes]).1.lost, 0);
}

#[test]
fn a_wrapped_ring_has_not_lost_earlier_records() {
    let mut ring = crooked_ring(0);
    ring.lost = 17;
    ring.skip_packets(9);
    more(&mut ring, 0, 10);
    assert!(read(&[&sealed(&mut ring)]).1.is_none());
}

#[test]
fn a_trace_cut_in_half_gives_its_whole_packets() {
    let bytes = sealed(&mut crooked_ring(1000));
    let per_page = 4008 / 24;
    let (seen, losses) = read(&[&bytes[..3 * 4096 + 2000]]);
    assert_eq!(seen.len(), 3 * per_page);
    assert_eq!(losses.packets_damaged, 1);
    assert_eq!(
        losses.notes,
        ["main_0: packet 3: only 2000 bytes of it are there, the file was cut"]
    );
}

/// Reads all, and returns the records reported absent: CPU, recorded, found, removed.
fn absent(path: &Path, only: Option<&str>) -> Vec<(u32, u64, u64, bool)> {
    let mut trace = directory::open(path).unwrap();
    if let Some(buffer) = only {
        trace.reader.only(buffer);
    }
    while trace.reader.next().unwrap().is_some() {}
    let absent = trace.reader.absent(&trace.summary.unwrap_or_default());
    absent
        .iter()
        .map(|it| (it.cpu, it.recorded, it.found, it.removed))
        .collect()
}

#[test]
fn a_trace_that_lost_packets_or_files_is_known_by_its_summary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let mut writer = directory::create(path, info(), false).unwrap();
    for mut stream in sample::streams(500) {
        let bytes = sealed(&mut stream.ring);
        writer.append(stream.buffer, stream.cpu, &bytes).unwrap();
    }
    let mut summary = sample::summary();
    summary.events.truncate(1);
    summary.events[0].recorded = 400;
    summary.events.push(EventCount {
        event: "raw:bare".into(),
        recorded: 100,
        ..EventCount::default()
    });
    summary.events.push(EventCount {
        event: "raw:bare".into(),
        cpu: 1,
        recorded: 1000,
        overwritten: 7,
        lost: 9,
    });
    assert!(
        absent(path, None).is_empty(),
        "one that is being written has no summary yet"
    );
    writer
        .finish(&summary, &sample::symbols(), &sample::processes())
        .unwrap();
    assert!(absent(path, None).is_empty(), "it is whole");
    let first = path.join("main_0");
    let bytes = fs::read(&first).unwrap();
    for cut in [bytes.len() / 2 / 4096 * 4096, bytes.len() / 2 / 4096 * 4096 + 100] {
        fs::write(&first, &bytes[..cut]).unwrap();
        let found = absent(path, None);
        let [(0, 500, there, false)] = found[..] else {
            panic!("{found:?}");
        };
        assert!((1..500).contains(&there), "{there}");
        assert!(
            absent(path, Some("flight-log")).is_empty(),
            "of a part nothing is known"
        );
    }
    fs::remove_file(&first).unwrap();
    fs::remove_file(path.join("flight-log_1")).unwrap();
    assert_eq!(absent(path, None), [(0, 500, 0, true), (1, 1000, 500, false)]);
    let report = directory::open(path).unwrap().report(None).unwrap();
    assert_eq!((report.records, report.absent()), (500, 1000));
    let printed = text(&report, 90, false);
    assert!(printed.contains("absent 1,000"), "{printed}");
    assert!(
        printed.contains("none of main_0, flight-log_0 is there: 0 of 500 events of CPU 0"),
        "{printed}"
    );
    let printed = absent_lines(&report.absent, summary.recorded());
    assert_eq!(
        printed[0],
        "the trace is not whole: 500 of 1,500 events that were recorded can be read"
    );
    assert_eq!(
        printed[2],
        "  one of main_1, flight-log_1 was cut, damaged or removed: 500 of 1,000 events of CPU 1"
    );
}

#[test]
fn a_broken_packet_is_passed_over() {
    let good = sealed(&mut crooked_ring(1000));
    let per_page = 4008 / 24;
    let cases: [(usize, u8, &str); 4] = [
        (
            0,
            0,
            "main_0: packet 1: it does not begin with the magic number of CTF",
        ),
        (
            4,
            0,
            "main_0: packet 1: it belongs to trace 00234567-89ab-cdef-fedc-ba9876543210",
        ),
        (88, 0xff, "main_0: packet 1: unknown event number 511 at byte 88"),
        (41, 0xff, "main_0: packet 1: its content size is 65280 bits"),
    ];
    for (at, byte, note) in cases {
        let mut bytes = good.clone();
        bytes[4096 + at] = byte;
        let (seen, losses) = read(&[&bytes]);
        assert_eq!(losses.notes, [note]);
        assert_eq!((seen.len(), losses.packets_damaged), (1000 - per_page, 1));
    }
}

#[test]
fn an_unsealed_packet_is_read_as_far_as_it_was_committed() {
    let (seen, losses) = read(&[&crooked_ring(3).bytes()]);
    assert_eq!((seen.len(), losses.packets_damaged), (3, 1));
}

#[test]
fn a_path_that_is_no_trace_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    assert!(matches!(directory::open(path), Err(Error::NoMetadata { .. })));
    let missing = directory::open(&path.join("none")).unwrap_err();
    assert!(
        missing.to_string().contains("cannot open trace") && missing.errno() == Some(2),
        "{missing}"
    );
    std::fs::write(path.join("file"), "x").unwrap();
    assert!(matches!(
        directory::open(&path.join("file")),
        Err(Error::NoMetadata { .. })
    ));
    std::fs::write(path.join("metadata"), b"\xff\xfe binary").unwrap();
    assert!(matches!(directory::open(path), Err(Error::Metadata { .. })));
}

#[test]
fn the_kernel_addresses_of_a_trace_can_be_collected() {
    let bytes = sealed(&mut sample::streams(11).remove(0).ring);
    let mut reader = Reader::new(info(), vec![("main_0".into(), bytes.as_slice())]);
    let mut all = HashSet::new();
    while let Some(record) = reader.next().unwrap() {
        addresses(&record, &mut all);
    }
    let mut all: Vec<u64> = all.into_iter().collect();
    all.sort_unstable();
    // Two elements of `tails`, the frames of `kstack`, `caller`; neither `buf`, no `args`, nor the user's frames.
    let frames = [
        0xffff_ffff_8100_0010,
        0xffff_ffff_8100_1005,
        0xffff_ffff_8100_1010,
    ];
    assert_eq!(all, [&[0x10, 0xffff_ffff_8100_0000][..], &frames].concat());
    assert_eq!(sample::symbols().subset(all).len(), 2);
}

#[test]
fn names_of_processes_survive_their_file() {
    let names = Processes::parse(b"1 init\n42 a b\n").unwrap();
    assert_eq!(
        (names.name(42, 42), names.name(43, 42), names.name(7, 7)),
        (Some("a b"), Some("a b"), None)
    );
    assert_eq!(
        (names.name(0, 0), names.to_lines().as_slice()),
        (Some("<idle>"), &b"1 init\n42 a b\n"[..])
    );
    let error = Processes::parse(b"init 1\n").unwrap_err().to_string();
    assert!(
        error.contains("names of processes") && error.contains("\"init 1\""),
        "{error}"
    );
}
