//! Sessions of LTTng's in several traces, and what their packets count: lost events, overwritten packets.

use crate::importing::read;
use crate::lttng_streams::{Packet, tsdl, without_context};
use kestrel_trace::ctf::read::Losses;
use kestrel_trace::import;
use std::path::Path;

/// Packets of one stream, by the sequence number and the count of lost events of each, with an event in each.
fn write_packets(folder: &Path, metadata: &str, packets: &[(i64, i64)]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("metadata"), metadata).unwrap();
    let mut file = Vec::new();
    for (sequence, discarded) in packets {
        let time = 100 + sequence * 100;
        let mut packet = Packet::begin(true, time, *sequence, *discarded, 0);
        match metadata.contains("event.context") {
            true => packet.event(2, time, (70, 71, "cat")),
            false => packet.bare(2, time),
        }
        packet.int(8, 64, *sequence);
        file.extend(packet.end(512));
    }
    std::fs::write(folder.join("channel0_0"), file).unwrap();
}

fn losses(folder: &Path) -> (usize, Losses) {
    let mut trace = import::open(folder).unwrap();
    let mut records = 0;
    while trace.reader.next().unwrap().is_some() {
        records += 1;
    }
    (records, trace.reader.losses())
}

#[test]
fn a_count_of_lost_events_that_falls_counts_none_twice() {
    let dir = tempfile::tempdir().unwrap();
    write_packets(dir.path(), &tsdl(true), &[(0, 0), (1, 50), (2, 40), (3, 60)]);
    let (records, losses) = losses(dir.path());
    assert_eq!((records, losses.lost), (4, 60));
}

#[test]
fn a_count_of_32_bits_may_begin_anew() {
    let dir = tempfile::tempdir().unwrap();
    let most = i64::from(u32::MAX);
    write_packets(dir.path(), &tsdl(true), &[(0, 0), (1, most), (2, 5), (3, 9)]);
    assert_eq!(losses(dir.path()).1.lost, most as u64 + 4);
}

#[test]
fn packets_that_were_overwritten_are_absent_and_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    write_packets(dir.path(), &tsdl(true), &[(0, 0), (4, 0), (5, 0), (9, 2)]);
    let (records, losses) = losses(dir.path());
    assert_eq!(
        (
            records,
            losses.packets_absent,
            losses.packets_damaged,
            losses.lost
        ),
        (4, 6, 0, 2)
    );
    assert_eq!(losses.notes, Vec::<String>::new());
}

/// As `lttng rotate` leaves them: the second part's counts run on.
#[test]
fn parts_of_a_session_are_read_as_one_in_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let part = |name: &str| dir.path().join("archives").join(name).join("ust/uid/0/64-bit");
    write_packets(&part("1"), &tsdl(true), &[(0, 0), (1, 7)]);
    write_packets(&part("2"), &tsdl(true), &[(2, 7), (3, 9)]);
    let (_, losses) = losses(dir.path());
    assert_eq!((losses.lost, losses.packets_absent), (9, 0));
    let (records, ..) = read(dir.path());
    let results: Vec<i64> = records
        .iter()
        .map(|it| it["fields"]["ret"].as_i64().unwrap())
        .collect();
    assert_eq!(results, [0, 1, 2, 3]);
    let trace = import::open(dir.path()).unwrap();
    let named = |event: &&kestrel_trace::event::EventClass| event.name == "syscalls:sys_exit_openat";
    assert_eq!(trace.reader.info().events.iter().filter(named).count(), 1);
}

/// LTTng measures what the clock differs from the wall's by for each trace anew.
#[test]
fn times_of_parts_are_of_one_clock() {
    let dir = tempfile::tempdir().unwrap();
    write_packets(&dir.path().join("a"), &tsdl(true), &[(0, 0)]);
    let later = tsdl(true).replace("offset = 250000000", "offset = 250000025");
    write_packets(&dir.path().join("b"), &later, &[(0, 0)]);
    let (records, ..) = read(dir.path());
    let times: Vec<u64> = records.iter().map(|it| it["time"].as_u64().unwrap()).collect();
    // Two ns a cycle.
    assert_eq!(times, [200, 250]);
}

/// Buffers per process: the trace says whose they are, records need no context.
#[test]
fn a_trace_of_one_process_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = without_context().replace(
        "domain = \"kernel\";",
        "domain = \"ust\"; vpid = 42; procname = \"app\";",
    );
    write_packets(dir.path(), &metadata, &[(0, 0)]);
    let (records, ..) = read(dir.path());
    assert_eq!(
        (&records[0]["pid"], &records[0]["tid"], &records[0]["comm"]),
        (&42.into(), &42.into(), &"app".into())
    );
}

#[test]
fn of_several_traces_the_one_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    write_packets(&dir.path().join("a"), &tsdl(true), &[(0, 0)]);
    write_packets(
        &dir.path().join("b"),
        "trace { major = 1; }; event { fields := no_type; };",
        &[],
    );
    let error = import::open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("/b") && error.contains("no_type is not a type"),
        "{error}"
    );
}
