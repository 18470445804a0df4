//! Records recovered from an image of memory equal those in the rings, whatever the image looks like and whatever else stands in it.

use crate::images::{self, Packing};
use crate::pages::{Cell, Ring, record};
use crate::sample::{UUID, class, crooked, info, streams};
use kestrel_trace::ctf::metadata;
use kestrel_trace::ctf::pages::metadata_pages;
use kestrel_trace::ctf::{directory, packet};
use kestrel_trace::image::{Format, Image};
use kestrel_trace::info::{TraceInfo, Uuid};
use kestrel_trace::packet::{PAGE, offset};
use kestrel_trace::recover::{Findings, Recovered, search};
use proptest::prelude::*;
use std::path::Path;

type Page = packet::Page;

fn description(info: &TraceInfo) -> Vec<Page> {
    generation(info, 0)
}

fn generation(info: &TraceInfo, generation: u64) -> Vec<Page> {
    metadata_pages(&metadata::text(info).unwrap(), info.uuid, generation)
}

/// Pages in an order that says nothing, among zeros and pages that only look like ours.
fn memory(mut pages: Vec<Page>) -> Vec<u8> {
    let mut alike = pages[0];
    alike[offset::PACKET_SIZE as usize] = 1;
    let mut old = pages[0];
    old[..4].fill(0);
    pages.extend([
        alike,
        old,
        [0; PAGE as usize],
        [0; PAGE as usize],
        [0x5a; PAGE as usize],
    ]);
    let number = pages.len();
    let stride = (number / 2..).find(|stride| gcd(*stride, number) == 1).unwrap();
    (0..number)
        .flat_map(|index| pages[index * stride % number])
        .collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn find(bytes: Vec<u8>) -> (Image<Vec<u8>>, Findings) {
    let image = Image::new(bytes).unwrap();
    let findings = search(&image, None, &mut |_, _| ()).unwrap();
    (image, findings)
}

fn save(bytes: Vec<u8>, path: &Path) -> Recovered {
    let (image, findings) = find(bytes);
    assert_eq!(findings.sessions.len(), 1, "{findings:?}");
    assert_eq!(findings.scanned.unreadable, 0, "{findings:?}");
    findings.sessions[0].save(&image, path, &mut |_| ()).unwrap()
}

/// Times of the records of a trace on a CPU.
fn times(path: &Path) -> Vec<(u32, u64)> {
    let mut reader = directory::open(path).unwrap().reader;
    let mut times = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        times.push((record.cpu, record.time_ns));
    }
    assert_eq!(reader.losses().packets_damaged, 0);
    times.sort_unstable();
    times
}

#[test]
fn every_record_comes_back_from_every_kind_of_image() {
    let streams = streams(500);
    let mut pages = description(&info());
    let mut expected = Vec::new();
    for stream in &streams {
        pages.extend(&stream.ring.pages);
        expected.extend(stream.times.iter().map(|time| (stream.cpu, *time)));
    }
    expected.sort_unstable();
    let packets = pages.len() as u64;
    // A page of a trace file in the page cache, and the one at hand as a recorder has closed it.
    pages.extend([streams[0].ring.pages[1], *streams[1].ring.pages.last().unwrap()]);
    let memory = memory(pages);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    for (name, bytes) in images::all(&memory) {
        let recovered = save(bytes, &path);
        assert_eq!(times(&path), expected, "{name}");
        assert_eq!(recovered.events, expected.len() as u64, "{name}");
        assert_eq!((recovered.cut, recovered.copies), (3, 2), "{name}");
        assert_eq!(
            (
                recovered.missing,
                recovered.torn,
                recovered.stale,
                recovered.damaged
            ),
            (0, 0, 0, 0)
        );
        assert_eq!(
            recovered.whole + recovered.cut + description(&info()).len() as u64,
            packets
        );
        assert_eq!(directory::open(&path).unwrap().reader.info(), &info());
        let beside = directory::staging_path(&path);
        assert!(!beside.exists(), "{name}");
    }
}

#[test]
fn pages_without_a_session_are_read_with_a_given_traces_metadata() {
    let streams = streams(50);
    let pages: Vec<_> = streams
        .iter()
        .flat_map(|stream| stream.ring.pages.clone())
        .collect();
    let (_, without) = find(memory(pages.clone()));
    assert!(without.sessions.is_empty(), "{without:?}");
    assert_eq!(without.unexplained.len(), 1, "{without:?}");
    let image = Image::new(memory(pages)).unwrap();
    let given = TraceInfo {
        uuid: Uuid([9; 16]),
        ..info()
    };
    let found = search(&image, Some(&given), &mut |_, _| ()).unwrap();
    assert!(found.unexplained.is_empty(), "{found:?}");
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    let recovered = found.sessions[0].save(&image, &path, &mut |_| ()).unwrap();
    assert_eq!(
        recovered.events,
        streams
            .iter()
            .map(|stream| stream.times.len() as u64)
            .sum::<u64>()
    );
    assert_eq!(recovered.uuid, info().uuid.to_string());
    assert_eq!(recovered.explained_by, Some(given.uuid.to_string()));
}

#[test]
fn sessions_are_distinguished_and_the_newest_comes_first() {
    let ring = |uuid, begin: u64| {
        let mut ring = Ring::new(uuid, 0, 0);
        for n in 0..300 {
            ring.push(begin + n, &record(&crooked(), begin + n, 1, 2, &[Cell::U(n)]));
        }
        ring.pages
    };
    let other = Uuid([7; 16]);
    let lonely = Uuid([8; 16]);
    let second = TraceInfo {
        uuid: other,
        ..info()
    };
    let pages = [
        description(&info()),
        description(&second),
        ring(UUID, 1_000),
        ring(other, 900_000),
        ring(lonely, 5),
    ];
    let (_, findings) = find(memory(pages.concat()));
    let uuids: Vec<Uuid> = findings.sessions.iter().map(|s| s.info().uuid).collect();
    assert_eq!(uuids, [other, UUID]);
    assert_eq!(findings.format, Format::Raw);
    let unexplained: Vec<&str> = findings.unexplained.iter().map(|one| one.uuid.as_str()).collect();
    assert_eq!(unexplained, [lonely.to_string()]);
}

#[test]
fn of_several_generations_of_metadata_the_newest_that_is_complete_counts() {
    let grown = |events: u16| {
        let mut info = info();
        for id in 0..events {
            info.events
                .push(class(1000 + id, "kprobe", &format!("kprobe:added_{id}"), vec![]));
        }
        info
    };
    let mut ring = Ring::new(UUID, 0, 0);
    ring.push(1, &record(&crooked(), 1, 1, 2, &[Cell::U(1)]));
    for (old, new) in [(0, 1), (1, 2), (0, 60), (58, 60), (60, 3)] {
        let mut torn = generation(&grown(90), 9);
        torn.pop();
        let older = generation(&grown(old), 3);
        let newer = generation(&grown(new), 4);
        // Begun, and given up, with the same number.
        let begun = generation(&grown(new + 1), 4);
        let pages = [older, newer, begun[..1].to_vec(), torn, ring.pages.clone()];
        let (_, findings) = find(memory(pages.concat()));
        assert_eq!(findings.sessions[0].info(), &grown(new), "{old} {new}");
    }
}

#[test]
fn a_whole_page_that_is_written_again_ends_where_the_new_records_begin() {
    let mut ring = Ring::new(UUID, 0, 0);
    for n in 0..400 {
        ring.push(100 + n, &record(&crooked(), 100 + n, 1, 2, &[Cell::U(n)]));
    }
    let all = ring.pages.len();
    let page = &mut ring.pages[0];
    let newer = record(&crooked(), 90_000, 1, 2, &[Cell::U(0)]);
    page[88 + 24 * 3..][..newer.len()].copy_from_slice(&newer);
    let lost = packet::Packet::parse(page.as_slice()).unwrap().events - 3;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    let recovered = save(memory([description(&info()), ring.pages].concat()), &path);
    assert_eq!((recovered.whole, recovered.cut), (all as u64 - 2, 2));
    assert_eq!(
        (recovered.events, recovered.torn),
        (400 - u64::from(lost), u64::from(lost))
    );
    assert_eq!(times(&path).len() as u64, recovered.events);
}

#[test]
fn gaps_are_counted_and_other_peoples_files_left_alone() {
    let mut ring = Ring::new(UUID, 0, 0);
    for n in 0..1000 {
        ring.push(100 + n, &record(&crooked(), 100 + n, 1, 2, &[Cell::U(n)]));
    }
    ring.pages.remove(3);
    ring.pages.remove(2);
    ring.pages.remove(0);
    let image = memory([description(&info()), ring.pages].concat());
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    assert_eq!(save(image.clone(), &path).missing, 2);
    assert_eq!(save(image.clone(), &path).missing, 2, "an old trace is replaced");
    let note = path.join("note");
    std::fs::write(&note, "keep me").unwrap();
    let (again, findings) = find(image.clone());
    let refused = findings.sessions[0].save(&again, &path, &mut |_| ());
    assert!(
        matches!(&refused, Err(kestrel_trace::Error::InTheWay { path }) if *path == note),
        "{refused:?}"
    );
    assert!(
        note.exists() && directory::open(&path).is_ok(),
        "the old trace stays"
    );
    std::fs::remove_file(note).unwrap();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(save(image.clone(), &link).missing, 2);
    assert!(
        link.is_symlink() && directory::open(&path).is_ok(),
        "a link stays one"
    );
    let occupied = place.path().join("mine");
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("letter"), "dear").unwrap();
    let (image, findings) = find(image);
    let refused = findings.sessions[0].save(&image, &occupied, &mut |_| ());
    assert!(
        matches!(refused, Err(kestrel_trace::Error::Occupied { .. })),
        "{refused:?}"
    );
    assert!(!directory::staging_path(&occupied).exists());
}

#[test]
fn a_cut_image_gives_the_pages_that_are_there() {
    let streams = streams(200);
    let mut pages = description(&info());
    pages.extend(streams.iter().flat_map(|stream| stream.ring.pages.clone()));
    let memory: Vec<u8> = pages.concat();
    for whole in [images::elf64(&memory), images::kdump(&memory, Packing::Zlib)] {
        let (_, all) = find(whole.clone());
        let cut = whole[..whole.len() - 2 * PAGE as usize].to_vec();
        let (_, part) = find(cut);
        assert!(part.scanned.unreadable > 0 && part.scanned.note.is_some());
        assert!(part.sessions[0].packets() < all.sessions[0].packets());
        assert!(part.sessions[0].packets() > 0);
    }
}

/// Reads an image of any bytes to its end, and writes what seems to be in it.
fn survive(bytes: Vec<u8>) {
    let Ok(image) = Image::new(bytes) else { return };
    let Ok(findings) = search(&image, None, &mut |_, _| ()) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    for (index, session) in findings.sessions.iter().enumerate() {
        let path = place.path().join(index.to_string());
        if session.save(&image, &path, &mut |_| ()).is_ok() {
            let mut reader = directory::open(&path).unwrap().reader;
            while reader.next().unwrap().is_some() {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn damaged_images_are_survived(
        form in 0_usize..10,
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..20),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let streams = streams(40);
        let mut pages = description(&info());
        pages.extend(streams.iter().flat_map(|stream| stream.ring.pages.clone()));
        let (_, mut bytes) = images::all(&memory(pages)).swap_remove(form);
        for (at, value, early) in wrong {
            // Half of them where headers are.
            let at = at.index(if early { bytes.len().min(600) } else { bytes.len() });
            bytes[at] = value;
        }
        if cut {
            bytes.truncate(length.index(bytes.len()));
        }
        survive(bytes);
    }

    #[test]
    fn any_bytes_behind_a_right_beginning_are_survived(
        start in prop::sample::select(vec![
            b"\x7fELF\x02\x01".as_slice(), b"\x7fELF\x01\x02", b"KDUMP   \x06\0\0\0", b"makedumpfile\0\0\0\0", b"",
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        survive([start, &rest].concat());
    }
}
