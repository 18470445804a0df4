//! Packed streams: the same records from fewer bytes, whatever is cut or damaged is named, and what lies out of the times is not unpacked.

use crate::pages::{Cell, Ring, record};
use crate::sample::{self, crooked, everything, everything_cells, info, sched_switch};
use crate::writing::sealed;
use kestrel_trace::ctf::ahead::{Ahead, Unpackers};
use kestrel_trace::ctf::block::{BLOCK_HEADER, BlockHeader, Depth, LEVEL, PACKETS, Packer, Unpacker};
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::packed::{PackedOut, StreamOut, Unpacked};
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::ctf::read::{Losses, Reader, Source};
use kestrel_trace::ctf::write::StreamFile as _;
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::PAGE;
use proptest::prelude::*;
use std::io::{Cursor, Write as _};
use std::ops::RangeInclusive;
use std::path::Path;

fn packer() -> Packer {
    Packer::new(EventTable::new(info().events), LEVEL).unwrap()
}

/// Pages of one CPU in which records of several lengths follow each other, one each 10 ns from 1000 on.
fn pages(records: u64) -> Vec<u8> {
    let mut ring = Ring::new(sample::UUID, 0, 0);
    for n in 0..records {
        let time = 1000 + 10 * n;
        let bytes = match n % 7 {
            0 => record(&everything(), time, 100, 101, &everything_cells(n)),
            _ => record(&crooked(), time, n as u32 % 3, 1, &[Cell::U(n)]),
        };
        ring.push(time, &bytes);
    }
    ring.leave();
    ring.bytes()
}

/// A file of blocks.
fn file(pages: &[u8]) -> Vec<u8> {
    let blocks = pages.chunks(PACKETS * PAGE as usize);
    blocks.flat_map(|pages| packer().pack(pages).unwrap()).collect()
}

/// The times of the records in a file, and what is missing: the same whether a thread unpacks ahead or not.
fn times(file: &[u8], within: RangeInclusive<u64>) -> (Vec<u64>, Losses) {
    let input = || Cursor::new(file.to_vec());
    let found = times_of(Unpacked::new(input()), within.clone());
    assert!(found == times_of(Ahead::new(input(), &Unpackers::default()), within));
    found
}

fn times_of(input: impl Source, within: RangeInclusive<u64>) -> (Vec<u64>, Losses) {
    let mut reader = Reader::new(info(), vec![("main_0".into(), input)]);
    reader.within(within);
    let mut times = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        times.push(record.time_ns);
    }
    (times, reader.losses())
}

/// Where each block of a file begins.
fn blocks(file: &[u8]) -> Vec<usize> {
    let mut begins = vec![0];
    while let Some(header) = file[*begins.last().unwrap()..].first_chunk() {
        let block = BlockHeader::parse(header).unwrap();
        begins.push(begins.last().unwrap() + BLOCK_HEADER + block.bytes(Depth::All));
    }
    assert_eq!(begins.pop(), Some(file.len()));
    begins
}

#[test]
fn every_record_comes_back_from_a_smaller_trace() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, level| {
        let path = dir.path().join(name);
        let mut writer = directory::create_packed(&path, info(), false, level).unwrap();
        for mut stream in sample::streams(30_000) {
            for pages in sealed(&mut stream.ring).chunks(24 * PAGE as usize) {
                writer.append(stream.buffer, stream.cpu, pages).unwrap();
            }
        }
        let written = writer.finish(&sample::summary(), &sample::symbols(), &sample::processes());
        (path, written.unwrap())
    };
    let read = |path: &Path, heads: bool| {
        let mut trace = directory::open(path).unwrap();
        if heads {
            trace.reader.heads_alone();
        }
        let mut all = Vec::new();
        while let Some((buffer, record)) = trace.reader.next_in().unwrap() {
            all.push((buffer, record.cpu, record.time_ns, record.bytes.to_vec()));
        }
        assert!(trace.reader.losses().is_none(), "{:?}", trace.reader.losses());
        assert_eq!(trace.packets, trace.reader.packets());
        assert_eq!(trace.summary, Some(sample::summary()));
        all
    };
    let (plain, as_it_is) = write("plain", None);
    let (packed, small) = write("packed", Some(LEVEL));
    assert_eq!(
        (small.streams, small.packets),
        (as_it_is.streams, as_it_is.packets)
    );
    let on_disk = |name: &str| std::fs::metadata(packed.join(name)).map(|file| file.len());
    let on_disk: u64 = sample::streams(1)
        .iter()
        .map(|stream| {
            on_disk(&format!(
                "{}.packed",
                info().buffer(stream.buffer).unwrap().stream(stream.cpu)
            ))
            .unwrap()
        })
        .sum();
    assert_eq!(small.bytes, on_disk);
    assert!(
        small.bytes * 6 < as_it_is.bytes,
        "{} of {}",
        small.bytes,
        as_it_is.bytes
    );
    let whole = read(&packed, false);
    assert!(read(&plain, false) == whole);
    // Switches name threads: who counts by thread has their records whole, and so the same names.
    let switch = sched_switch().id.0.to_le_bytes();
    let heads = read(&packed, true);
    let mut switches = 0;
    for (head, all) in heads.iter().zip(&whole) {
        if all.3.starts_with(&switch) {
            assert!(head == all);
            switches += 1;
        }
    }
    assert!(switches > 0 && heads.len() == whole.len());
    // A new recording takes its place, packed or not.
    drop(directory::create(&packed, info(), true).unwrap());
    assert!(!packed.join("main_0.packed").exists());
}

#[test]
fn heads_are_unpacked_alone_where_they_name_threads() {
    let mut ring = Ring::new(sample::UUID, 0, 0);
    for n in 0..5_000 {
        let time = 1000 + 10 * n;
        ring.push(
            time,
            &record(&crooked(), time, n as u32 % 3, 1, &[Cell::U(n | 1)]),
        );
    }
    ring.leave();
    let file = file(&ring.bytes());
    let read = |file: &[u8], heads: bool| {
        let mut info = info();
        info.events = vec![crooked()];
        let input = Unpacked::new(Cursor::new(file.to_vec()));
        let mut reader = Reader::new(info, vec![("main_0".into(), input)]);
        if heads {
            reader.heads_alone();
        }
        let mut all = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            all.push((record.time_ns, record.tid, record.bytes.to_vec()));
        }
        (all, reader.losses().is_none())
    };
    let ((whole, sound), (heads, also)) = (read(&file, false), read(&file, true));
    assert!(sound && also && whole.len() == 5_000);
    assert!(heads != whole, "their fields were not unpacked");
    for (head, all) in heads.iter().zip(&whole) {
        assert_eq!((head.0, head.1, head.2.len()), (all.0, all.1, all.2.len()));
        assert_eq!(head.2[..16], all.2[..16]);
    }
    // Blocks written before their heads had what names threads are unpacked whole.
    let mut older = file.clone();
    for begin in blocks(&file) {
        let header = &mut older[begin..begin + BLOCK_HEADER];
        header[7] &= 0x7f;
        let sum = header[..BLOCK_HEADER - 4]
            .iter()
            .fold(0x811c_9dc5_u32, |sum, byte| {
                (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
            });
        header[BLOCK_HEADER - 4..].copy_from_slice(&sum.to_le_bytes());
    }
    assert!(older != file && read(&older, true).0 == whole);
    // A cut is noticed, whether the cut part was asked for or not.
    let cut = &file[..file.len() - 10];
    assert_eq!((read(cut, false).1, read(cut, true).1), (false, false));
}

#[test]
fn blocks_out_of_the_times_are_stepped_over() {
    let whole = pages(30_000);
    let mut file = file(&whole);
    let begins = blocks(&file);
    assert!(begins.len() > 3, "{begins:?}");
    let wanted = 2_000..=2_500;
    let plain = |within: RangeInclusive<u64>| {
        let mut reader = Reader::new(info(), vec![("main_0".into(), whole.as_slice())]);
        reader.within(within);
        let mut times = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            times.push(record.time_ns);
        }
        times
    };
    assert_eq!(
        times(&file, wanted.clone()),
        (plain(wanted.clone()), Losses::default())
    );
    // Parts that are not unpacked may be anything.
    let last = file.len() - 1;
    for at in [begins[2] - 1, last] {
        file[at] ^= 0xff;
    }
    assert_eq!(times(&file, wanted.clone()), (plain(wanted), Losses::default()));
    let (found, losses) = times(&file, 0..=u64::MAX);
    assert!(found.len() < 30_000);
    assert_eq!(losses.packets_damaged, 2);
    assert_eq!(losses.packets_absent, PACKETS as u64);
    assert_eq!(
        losses.notes,
        ["main_0: block 1: its records do not unpack; its 64 packets are missing"]
    );
}

#[test]
fn a_cut_file_gives_its_whole_blocks() {
    let file = file(&pages(20_000));
    let begins = blocks(&file);
    let (all, losses) = times(&file, 0..=u64::MAX);
    assert!(losses.is_none());
    assert_eq!(all.len(), 20_000);
    for cut in [begins[1] + 1, begins[1] + BLOCK_HEADER, begins[2] - 1] {
        let (found, losses) = times(&file[..cut], 0..=u64::MAX);
        assert!(!found.is_empty() && found.len() < all.len() && all.starts_with(&found));
        let there = cut - begins[1];
        let why = format!("main_0: block 1: only {there} bytes of it are there, the file was cut");
        assert_eq!(losses.notes, [why]);
    }
    let (found, losses) = times(&file[..begins[1]], 0..=u64::MAX);
    assert!(losses.is_none() && !found.is_empty());
    let mut noise = file;
    noise[begins[1]..begins[1] + 8].fill(7);
    let (before, losses) = times(&noise, 0..=u64::MAX);
    assert_eq!(before, found);
    let why = "main_0: block 1: no block of compressed packets begins there; what is behind it is not read";
    assert_eq!(losses.notes, [why]);
}

#[test]
fn any_damaged_byte_is_noticed() {
    let file = file(&pages(600));
    let (all, _) = times(&file, 0..=u64::MAX);
    for at in (0..file.len()).step_by(5) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let (found, losses) = times(&damaged, 0..=u64::MAX);
        assert!(found == all || !losses.is_none(), "byte {at}");
    }
}

/// Pages after a block was packed and unpacked.
#[test]
fn a_file_of_the_first_form_is_named_as_such() {
    let mut file = file(&pages(10));
    file[..4].copy_from_slice(b"bl1k");
    let mut header = [0; BLOCK_HEADER];
    header.copy_from_slice(&file[..BLOCK_HEADER]);
    let why = BlockHeader::parse(&header).unwrap_err().to_string();
    assert!(why.contains("first form"), "{why}");
}

fn there_and_back(pages: &[u8]) -> Vec<u8> {
    let block = packer().pack(pages).unwrap();
    let header = BlockHeader::parse(block.first_chunk().unwrap()).unwrap();
    let mut back = Vec::new();
    Unpacker::default()
        .unpack(&header, &block[BLOCK_HEADER..], &mut back)
        .unwrap();
    back
}

#[test]
fn pages_that_are_no_sound_packets_are_kept_as_they_are() {
    let sound = pages(2000);
    let page = |n: usize| n * PAGE as usize;
    let mut odd = sound.clone();
    // No packet, one with an unknown event in the middle, one that was never left.
    odd[page(1)] ^= 1;
    odd[page(2) + 1000..page(2) + 2000].fill(0xfe);
    odd[page(3) + 80..page(3) + 84].fill(0);
    let back = there_and_back(&odd);
    assert_eq!(back[page(1)..page(4)], odd[page(1)..page(4)]);
    for n in [0, 4, 5] {
        let (before, after) = (&odd[page(n)..page(n + 1)], &back[page(n)..page(n + 1)]);
        let end = 88 + Packet::parse(before).unwrap().content().len();
        assert_eq!(after[..end], before[..end]);
        assert!(after[end..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn pages_that_a_full_disk_refuses_are_kept_for_the_next_write() {
    let full = || {
        let file = std::fs::File::options().write(true).open("/dev/full").unwrap();
        StreamOut::Packed(Box::new(PackedOut::new(file, packer())))
    };
    let block = PACKETS * PAGE as usize;
    let pages = pages(30_000);
    let mut stream = full();
    assert_eq!(stream.write(&pages[..block + 8192]).unwrap(), block);
    assert_eq!(
        stream.write(&pages[block..]).unwrap_err().raw_os_error(),
        Some(28)
    );
    assert_eq!(stream.waiting(), &pages[..block]);
    assert_eq!(stream.stored(block as u64), 0);
    assert!(stream.flush().is_err());
    assert_eq!(stream.waiting().len(), block);
    let mut stream = full();
    assert_eq!(stream.write(&pages[..8192]).unwrap(), 8192);
    stream.truncate(4096).unwrap();
    assert_eq!(stream.waiting(), &pages[..4096]);
}

/// The headers of packets as a block holds them.
fn header_columns(pages: &[u8]) -> Vec<u8> {
    let pages: Vec<&[u8]> = pages.chunks(PAGE as usize).collect();
    let mut columns = vec![0; pages.len()];
    for word in 0..11 {
        let mut before = 0;
        for page in &pages {
            let value = u64::from_le_bytes(*page[word * 8..].first_chunk().unwrap());
            columns.extend(value.wrapping_sub(before).to_le_bytes());
            before = value;
        }
    }
    columns
}

/// Heads that hold together more or less.
fn heads() -> impl Strategy<Value = Vec<u8>> {
    // The highest bit says where fields are.
    let shape = (
        0..4u16,
        (0..12u16, any::<bool>()).prop_map(|(words, here)| words | u16::from(here) << 15),
    );
    let parts = (
        prop::collection::vec(shape, 0..4),
        0..60u32,
        any::<u64>(),
        0..8000usize,
    );
    parts.prop_map(|(shapes, events, noise, rest)| {
        let mut body = (shapes.len() as u16).to_le_bytes().to_vec();
        for (number, words) in &shapes {
            body.extend(number.to_le_bytes());
            body.extend(words.to_le_bytes());
        }
        body.extend(events.to_le_bytes());
        body.extend((0..events).map(|n| (noise >> (n % 60)) as u8 % shapes.len().max(1) as u8));
        body.extend(std::iter::repeat_n(0, events as usize));
        body.extend((0..rest).map(|n| (noise >> (n % 60)) as u8));
        body
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_trouble(bytes: Vec<u8>, heads in heads(), fields in 0..3000usize) {
        let headers = header_columns(&pages(100)[..2 * PAGE as usize]);
        let mut file = packer().block_of(2, [&headers, &heads, &vec![3; fields]]).unwrap();
        file.extend(&bytes);
        times(&file, 0..=u64::MAX);
        times(&bytes, 0..=u64::MAX);
    }
}

/// The times of the records of a directory from a time on, by a reader that went straight there, or by one that read everything.
fn from(path: &Path, time_ns: u64, straight: bool) -> Vec<u64> {
    let mut reader = directory::open(path).unwrap().reader;
    if straight {
        reader.skip_to(time_ns).unwrap();
    }
    let mut times = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        times.push(record.time_ns);
    }
    if straight && time_ns > 200_000 {
        assert!(times.len() < 12_000, "it did not read the rest: {}", times.len());
    }
    times.retain(|time| *time >= time_ns);
    times
}

#[test]
fn a_reader_goes_straight_to_a_time() {
    let dir = tempfile::tempdir().unwrap();
    for level in [None, Some(LEVEL)] {
        let path = dir.path().join(format!("{level:?}"));
        let mut writer = directory::create_packed(&path, info(), false, level).unwrap();
        writer.append(0, 0, &pages(30_000)).unwrap();
        let written = writer.finish(&sample::summary(), &sample::symbols(), &sample::processes());
        written.unwrap();
        let check = || {
            for time in [
                0,
                1000,
                1005,
                77_770,
                150_000,
                250_001,
                300_990,
                300_991,
                u64::MAX,
            ] {
                assert_eq!(
                    from(&path, time, true),
                    from(&path, time, false),
                    "{time} in {level:?}"
                );
            }
        };
        check();
        assert_eq!(from(&path, 300_990, true), [300_990]);
        if level.is_none() {
            // A damaged page: nothing is stepped over for it.
            let file = path.join("main_0");
            let mut bytes = std::fs::read(&file).unwrap();
            let page = bytes.len() / PAGE as usize / 2 * PAGE as usize;
            bytes[page..page + PAGE as usize].fill(0);
            std::fs::write(&file, &bytes).unwrap();
            for time in [1005, 77_770, 150_000] {
                assert_eq!(
                    from(&path, time, true),
                    from(&path, time, false),
                    "{time} beside damage"
                );
            }
        }
    }
}
