//! Stacks that are longer than a record: their pieces are joined by the reader, not counted as events, and known to babeltrace2.

use crate::babeltrace::babeltrace;
use crate::pages::{Cell, Ring, record};
use crate::sample;
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::packet::{Packet, Sealed, cut_before, cut_front, seal};
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::EventClass;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::layout::FieldType;
use kestrel_trace::packet::HEADER;
use kestrel_trace::stack_pieces::{CLASS, PIECE_BYTES};

const SP: u64 = 0x7ffe_0000;

fn event() -> EventClass {
    sample::class(
        1,
        "tracepoint",
        "a:b",
        vec![("ustack", FieldType::StackCopy { max: 8, shown: None })],
    )
}

fn info() -> TraceInfo {
    TraceInfo {
        events: vec![event()],
        ..sample::info()
    }
}

/// Records with their pieces, so many: each has 8 bytes of the stack itself and 19 pieces, which do not fit into one page.
fn ring(records: u64) -> Ring {
    let mut ring = Ring::new(sample::UUID, 0, 2);
    for n in 0..records {
        let time = 5_000 + n * 100;
        for part in 0..19 {
            let address = SP + 8 + part * u64::from(PIECE_BYTES);
            let bytes = Cell::T(vec![part as u8; PIECE_BYTES as usize]);
            ring.push(
                time + part,
                &record(
                    &CLASS,
                    time + part,
                    7,
                    8,
                    &[Cell::U(address), Cell::U(time), bytes],
                ),
            );
        }
        let words = Cell::A(vec![0x40_1000 + n, SP, 0, time, 9]);
        ring.push(time + 50, &record(&event(), time + 50, 7, 8, &[words]));
    }
    ring
}

#[test]
fn a_reader_joins_them_and_shows_the_events_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = directory::create(dir.path(), info(), false).unwrap();
    let mut ring = ring(3);
    seal(ring.pages.last_mut().unwrap(), &EventTable::new([event()])).unwrap();
    writer.append(0, 2, &ring.bytes()).unwrap();
    let mut trace = directory::open(dir.path()).unwrap();
    assert_eq!(
        trace.reader.info().events,
        [event()],
        "pieces are no event of the trace"
    );
    let expected: Vec<u8> = (0..19).flat_map(|part| [part; PIECE_BYTES as usize]).collect();
    for n in 0..3 {
        let record = trace.reader.next().unwrap().unwrap();
        let copy = record.stack_copy().unwrap();
        assert_eq!((copy.ip, copy.stack), (0x40_1000 + n, &9_u64.to_le_bytes()[..]));
        assert!(copy.rest == expected, "{n}");
    }
    assert!(trace.reader.next().unwrap().is_none());
    assert!(trace.reader.losses().is_none());
    let Some(output) = babeltrace(&[], dir.path()) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let out = String::from_utf8(output.stdout).unwrap();
    let count = |name: &str| out.lines().filter(|line| line.contains(name)).count();
    assert_eq!((count(" a:b: "), count(" kestrel:stack_piece: ")), (3, 57));
}

#[test]
fn pages_with_them_count_events_alone() {
    let table = EventTable::new([event()]);
    let mut ring = ring(1);
    let last = ring.pages.last_mut().unwrap();
    assert_eq!(seal(last, &table), Ok(Sealed { events: 1, torn: 0 }));
    let whole = *last;
    let pieces = Packet::parse(last).unwrap().records(&table).count() as u32 - 1;
    assert!(pieces > 0);
    // In front of the event, and behind it.
    assert_eq!(cut_before(last, 5_018, &table), Ok(1));
    assert_eq!(Packet::parse(last).unwrap().records(&table).count(), 2);
    let mut page = whole;
    assert_eq!(cut_front(&mut page, HEADER + 1 + 1000, &table), Ok(1));
    assert_eq!(
        Packet::parse(&page).unwrap().records(&table).count() as u32,
        pieces
    );
    let mut page = whole;
    assert_eq!(cut_before(&mut page, 5_051, &table), Ok(0));
    for page in &ring.pages[..ring.pages.len() - 1] {
        assert_eq!(Packet::parse(page).unwrap().events, 0);
    }
}
