//! The writer alone: contents, order, pages, sizes, refusals, laps.

use crate::support::{
    Attempts, Bench, Recorder, Shape, VARIABLE, check_overwrite, check_stream, contents, drain,
};
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_hook::buffer::memory::Memory;
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::packet::{CAPACITY, HEADER, PAGE, SEALED, offset};

fn page_word(page: &[u8], at: u32) -> u64 {
    u64::from_le_bytes(page[at as usize..at as usize + 8].try_into().unwrap())
}

#[test]
fn thousands_of_records_come_back_as_they_went_in() {
    let mut bench = Bench::new(Mode::Stream, 64, &[(1, 40), (2, 16)]);
    let programs = [
        bench.recorder(1, Shape::Constant(40)),
        bench.recorder(2, Shape::Constant(16)),
        bench.recorder(VARIABLE, Shape::Variable),
    ];
    let mut expected = Vec::new();
    for i in 0..3000u64 {
        let program = &programs[(i * i % 7 % 3) as usize];
        let size = 24 + (i * 8 % 120) as u32;
        let at = bench.machine.environment.clock;
        assert!(program.run(&mut bench.machine, i, size));
        let size = match program.shape {
            Shape::Constant(size) => size,
            Shape::Variable => size,
        };
        expected.push((program.number, i, at, size));
    }
    let pages = bench.rest();
    let got = contents(&bench.table, &pages);
    // Each look at the clock takes 10 ns, and one that finds no room in its page looks again.
    let with_time = |(number, payload, at, size): &(u16, u64, u64, u32), time: u64| {
        (*number, *payload, time.clamp(*at, at + 10), *size)
    };
    let got: Vec<_> = got
        .records
        .iter()
        .map(|r| (r.number, r.payload, r.time, r.size))
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .zip(&got)
        .map(|(one, got)| with_time(one, got.2))
        .collect();
    assert_eq!(got.len(), 3000);
    assert_eq!(got, expected);
}

#[test]
fn a_page_is_sealed_with_its_records() {
    let mut bench = Bench::new(Mode::Stream, 4, &[(1, 1000)]);
    let program = bench.recorder(1, Shape::Constant(1000));
    for i in 0..9 {
        assert!(program.run(&mut bench.machine, i, 0));
    }
    let mut pages = Vec::new();
    assert_eq!(bench.read(|ring| drain(ring, &mut pages)), 2);
    for (sequence, page) in (0u64..).zip(pages.chunks(PAGE as usize)) {
        assert_eq!(page_word(page, offset::SEQUENCE), sequence);
        assert_eq!(
            page_word(page, offset::CONTENT_SIZE),
            u64::from(HEADER + 4000) * 8
        );
        assert_eq!(page_word(page, offset::PACKET_SIZE), u64::from(PAGE) * 8);
        assert_eq!(
            page_word(page, offset::COMMITTED),
            u64::from(CAPACITY + SEALED) | 4 << 32
        );
        assert_eq!(page_word(page, offset::DISCARDED), 0);
        let (packet, last) = (Packet::parse(page).unwrap(), sequence * 4 + 3);
        let records: Vec<_> = packet.records(&bench.table).map(Result::unwrap).collect();
        // The end is the time of the record that came next.
        assert_eq!(packet.end_ns, records.last().unwrap().time_ns + 10);
        assert_eq!(records.last().unwrap().pid, last as u32);
    }
}

#[test]
fn every_size_fits_up_to_a_whole_page() {
    for size in (16..=CAPACITY).step_by(8) {
        let mut bench = Bench::new(Mode::Stream, 4, &[(1, size)]);
        let program = bench.recorder(1, Shape::Constant(size));
        let mut attempts = Attempts::default();
        let per_page = CAPACITY / size;
        for _ in 0..per_page * 2 + 1 {
            let payload = attempts.next(1);
            assert!(program.run(&mut bench.machine, payload, 0), "size {size}");
        }
        let mut pages = Vec::new();
        bench.read(|ring| drain(ring, &mut pages));
        assert_eq!(pages.len(), 2 * PAGE as usize, "size {size}");
        check_stream(&mut bench, &attempts, &pages);
    }
    let geometry = Geometry::new(Mode::Stream, 16384, 8);
    let too_large = std::panic::catch_unwind(|| Recorder::new(geometry, 1, Shape::Constant(CAPACITY + 8)));
    assert!(too_large.is_err());
}

#[test]
fn variable_sizes_leave_no_page_overfull() {
    for seed in 1..40u32 {
        let mut bench = Bench::new(Mode::Stream, 32, &[]);
        let program = bench.recorder(VARIABLE, Shape::Variable);
        let mut attempts = Attempts::default();
        for i in 0..100 {
            let size = 24 + (i * seed * 88) % 2016;
            let payload = attempts.next(VARIABLE);
            program.run(&mut bench.machine, payload, size / 8 * 8);
        }
        check_stream(&mut bench, &attempts, &[]);
    }
}

#[test]
fn a_full_stream_refuses_and_goes_on_when_read() {
    let mut bench = Bench::new(Mode::Stream, 4, &[(1, 400), (2, 24)]);
    let programs = [
        bench.recorder(1, Shape::Constant(400)),
        bench.recorder(2, Shape::Constant(24)),
    ];
    let mut attempts = Attempts::default();
    let mut pages = Vec::new();
    for round in 0..10 {
        let mut kept = [0; 2];
        for i in 0..200 {
            let program = &programs[usize::from(i % 5 == 0)];
            let payload = attempts.next(program.number);
            kept[usize::from(i % 5 == 0)] += u64::from(program.run(&mut bench.machine, payload, 0));
        }
        assert!(kept[0] > 20 && kept[0] < 160, "round {round}: {kept:?}");
        let drained = bench.read(|ring| drain(ring, &mut pages));
        assert_eq!(drained, 3, "all but the page in use");
    }
    let contents = check_stream(&mut bench, &attempts, &pages);
    assert_eq!(contents.sequence, Some(0));
}

#[test]
fn an_overwriting_ring_keeps_the_newest() {
    for size in [16, 40, 1336, 2000, CAPACITY] {
        let mut bench = Bench::new(Mode::Overwrite, 4, &[(1, size)]);
        let program = bench.recorder(1, Shape::Constant(size));
        let mut attempts = Attempts::default();
        let per_page = CAPACITY / size;
        let mut total = 0;
        for laps in [3, 5, 1, 8] {
            for _ in 0..per_page * laps + 1 {
                let payload = attempts.next(1);
                total += 1;
                assert!(program.run(&mut bench.machine, payload, 0));
            }
        }
        let contents = check_overwrite(&mut bench, &attempts);
        assert_eq!(bench.counts()[&1], (total, 0));
        let last = contents.records.last().unwrap();
        assert_eq!(last.payload, 0x5eed_0000 + total - 1, "the newest is there");
        let first = contents.records[0].payload;
        let consecutive = (first..).zip(&contents.records).all(|(p, r)| p == r.payload);
        assert!(consecutive, "no holes");
        assert!(contents.records.len() as u32 > per_page * 3, "nearly four pages");
        assert!(contents.sequence.unwrap() >= 13);
    }
}

#[test]
fn numbers_from_the_attachment_count_for_themselves() {
    let sizes: Vec<(u16, u32)> = (1..7).map(|n| (n, 512)).collect();
    let mut bench = Bench::new(Mode::Stream, 4, &sizes);
    let mut attempts = Attempts::default();
    for i in 0..100u16 {
        let number = 1 + i % 6;
        let program = Recorder::numbered(bench.geometry, number, Shape::Constant(512), true);
        let payload = attempts.next(number);
        program.run(&mut bench.machine, payload, 0);
    }
    let contents = check_stream(&mut bench, &attempts, &[]);
    assert_eq!(contents.records.len(), 28);
}

#[test]
fn each_cpu_has_a_ring_of_its_own() {
    let mut bench = Bench::on_cpus(Mode::Stream, 4, &[(1, 64)], 3);
    let program = bench.recorder(1, Shape::Constant(64));
    for i in 0..90u64 {
        bench.machine.environment.cpu = (i % 3) as u32;
        assert!(program.run(&mut bench.machine, i, 0));
    }
    for cpu in 0..3 {
        let (pages, _) = bench.rest_of(cpu);
        assert_eq!(Packet::parse(&pages).unwrap().cpu, cpu);
        let got = contents(&bench.table, &pages);
        assert!(
            (0..30)
                .zip(&got.records)
                .all(|(i, r)| r.payload == i * 3 + u64::from(cpu))
        );
        assert_eq!(got.records.len(), 30);
    }
}

/// Pages lent in place equal those that a copy would have been, run by run; those not taken come again.
#[test]
fn pages_are_lent_as_they_would_be_copied() {
    let rings = || Bench::new(Mode::Stream, 32, &[(1, 1000)]);
    let (mut copied, mut lent) = (rings(), rings());
    let program = copied.recorder(1, Shape::Constant(1000));
    let mut wrapped = false;
    for batch in [0, 3, 20, 77, 1, 90, 100, 33] {
        for payload in 0..batch {
            assert!(program.run(&mut copied.machine, payload, 0));
            assert!(program.run(&mut lent.machine, payload, 0));
        }
        let (mut expected, mut got, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        let Bench { machine, reader, .. } = &mut copied;
        let pages = reader.with(machine, |ring| drain(ring, &mut expected));
        let Bench { machine, reader, .. } = &mut lent;
        let refused = reader.with(machine, |ring| ring.borrow_pages(0, &mut |_, _| Err(no_space())));
        assert_eq!(refused.is_err(), pages > 0);
        let taken = reader.with(machine, |ring| {
            ring.borrow_pages(0, &mut |memory, range| {
                let at = got.len();
                got.resize(at + range.len(), 0);
                runs.push(range.clone());
                memory.copy_out(range.start, &mut got[at..])
            })
        });
        assert_eq!(taken.unwrap(), pages);
        assert!(got == expected, "{batch} records");
        assert!(runs.iter().all(|run| run.len() <= 4 * PAGE as usize), "an eighth");
        assert!(runs.len() <= pages / 4 + 2, "in as few runs as may be");
        wrapped |= !runs.is_sorted_by_key(|run| run.start);
    }
    assert!(wrapped, "the ring came round");
}

fn no_space() -> kestrel_catalog::Error {
    kestrel_catalog::Error::Io {
        action: "write",
        subject: "a test".to_owned(),
        error: std::io::ErrorKind::StorageFull.into(),
    }
}
