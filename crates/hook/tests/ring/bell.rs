//! The bell: a writer wakes a reader that waits, once, and only for what it waits for.

use crate::support::{Bench, Recorder, Shape, drain};
use kestrel_bpf::code::MapRef;
use kestrel_bpf::interp;
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::layout::Mode;
use kestrel_trace::packet::{self, PAGE};

/// A ring of 16 pages, the bell's map, and a program whose record fills a quarter of a page.
fn bench(bell: Bell) -> (Bench, MapRef, Recorder) {
    let mut bench = Bench::new(Mode::Stream, 16, &[(1, 1000)]);
    let map = bench.machine.add_map(interp::MapKind::RingBuffer, 0, 0);
    let program = Recorder::ringing(bench.geometry, bell, 1, Shape::Constant(1000));
    (bench, map, program)
}

/// Number of times that the bell rang while records were written.
fn rings(bench: &mut Bench, map: MapRef, program: &Recorder, records: u64) -> usize {
    for i in 0..records {
        program.run(&mut bench.machine, i, 0);
    }
    bench.machine.take_events(map).len()
}

#[test]
fn a_quarter_full_ring_wakes_its_reader_once() {
    let (mut bench, map, program) = bench(Bell::QuarterFull);
    assert_eq!(rings(&mut bench, map, &program, 40), 0, "nobody listens");
    bench.read(|ring| drain(ring, &mut Vec::new()));
    bench.read(|ring| ring.listen(Bell::QuarterFull));
    // Of the page in use no record is left behind: four more pages make a quarter.
    assert_eq!(rings(&mut bench, map, &program, 12), 0, "three pages");
    assert_eq!(rings(&mut bench, map, &program, 4), 1, "the quarter");
    assert_eq!(rings(&mut bench, map, &program, 200), 0, "it was woken already");
    assert!(bench.lost() > 0);
    bench.read(|ring| drain(ring, &mut Vec::new()));
    bench.read(|ring| ring.listen(Bell::QuarterFull));
    assert_eq!(rings(&mut bench, map, &program, 30), 1);
}

#[test]
fn the_next_record_wakes_a_reader_of_records() {
    let (mut bench, map, program) = bench(Bell::Records);
    assert_eq!(rings(&mut bench, map, &program, 3), 0, "nobody listens");
    for _ in 0..3 {
        bench.read(|ring| ring.listen(Bell::Records));
        assert_eq!(rings(&mut bench, map, &program, 3), 1);
    }
}

#[test]
fn a_record_that_wakes_is_whole() {
    let (mut bench, map, program) = bench(Bell::Records);
    bench.read(|ring| ring.listen(Bell::Records));
    let mut rung = false;
    program.run_hooked(&mut bench.machine, 7, 0, &mut |machine, _| {
        if !rung && !machine.take_events(map).is_empty() {
            rung = true;
            let region = machine.value_address(MapRef(0), &[0; 4]).unwrap();
            let committed = region + u64::from(PAGE + packet::offset::COMMITTED);
            let committed = machine.read(committed, 8).unwrap();
            assert_eq!(committed[..4], 1000u32.to_le_bytes());
        }
    });
    assert!(rung);
}
