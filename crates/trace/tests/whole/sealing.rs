//! A page left half full becomes a packet; what was never finished in it does not.

use crate::pages::{Cell, Ring, record};
use crate::sample::{UUID, crooked, info};
use kestrel_trace::ctf::packet::{NotAPacket, Packet, Sealed, State, seal};
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::{HEADER, PAGE, offset};

fn page(records: u64) -> [u8; PAGE as usize] {
    let mut ring = Ring::new(UUID, 0, 2);
    for n in 0..records {
        let time = 5_000 + n;
        ring.push(time, &record(&crooked(), time, 1, 2, &[Cell::U(n)]));
    }
    ring.pages[0]
}

fn table() -> EventTable {
    EventTable::new(info().events)
}

#[test]
fn a_partial_page_becomes_whole() {
    let mut page = page(10);
    assert_eq!(Packet::parse(&page).unwrap().state, State::Partial);
    assert_eq!(seal(&mut page, &table()), Ok(Sealed { events: 10, torn: 0 }));
    let table = table();
    let packet = Packet::parse(&page).unwrap();
    assert_eq!(
        (packet.state, packet.end_ns, packet.events),
        (State::Whole, 5_009, 10)
    );
    let values: Vec<u64> = packet
        .records(&table)
        .map(|r| r.unwrap().get("a").unwrap().as_u64().unwrap())
        .collect();
    assert_eq!(values, (0..10).collect::<Vec<_>>());
    let before = page;
    assert_eq!(seal(&mut page, &table), Ok(Sealed { events: 10, torn: 0 }));
    assert_eq!(page, before, "a whole page stays as it is");
}

#[test]
fn records_behind_a_hole_are_counted_as_torn() {
    let mut page = page(10);
    // The fifth record was reserved but never written: bytes of an older use of the page, with an older time.
    let hole = HEADER as usize + 4 * 24;
    page[hole + 2..hole + 8].copy_from_slice(&4_000_u64.to_le_bytes()[..6]);
    assert_eq!(seal(&mut page, &table()), Ok(Sealed { events: 4, torn: 6 }));
    let packet = Packet::parse(&page).unwrap();
    assert_eq!((packet.end_ns, packet.content().len()), (5_003, 4 * 24));
}

#[test]
fn an_unused_page_is_empty() {
    let mut page = page(1);
    page[offset::COMMITTED as usize..][..8].fill(0);
    assert_eq!(Packet::parse(&page).unwrap().state, State::Empty);
    assert_eq!(seal(&mut page, &table()), Ok(Sealed { events: 0, torn: 0 }));
    assert_eq!(Packet::parse(&page).unwrap().content(), b"");
}

#[test]
fn a_damaged_packet_header_is_refused_by_its_field() {
    let change = |at: u32, byte: u8| {
        let mut page = page(1);
        page[at as usize] = byte;
        Packet::parse(&page).unwrap_err()
    };
    assert_eq!(change(offset::MAGIC, 0), NotAPacket::Magic);
    assert_eq!(change(offset::STREAM, 9), NotAPacket::Stream(9));
    assert_eq!(change(offset::PACKET_SIZE, 9), NotAPacket::PacketSize(0x8009));
    assert_eq!(change(offset::COMMITTED, 25), NotAPacket::Committed(25));
    assert!(matches!(change(offset::CPU + 2, 1), NotAPacket::Cpu(_)));
    assert_eq!(
        Packet::parse(&page(1)[1..]).unwrap_err(),
        NotAPacket::Length(4095)
    );
}

#[test]
fn times_go_on_beyond_48_bits() {
    let begin = (3 << 48) - 10;
    let mut ring = Ring::new(UUID, 0, 0);
    for time in [begin, begin + 9, begin + 10, begin + 500] {
        ring.push(time, &record(&crooked(), time, 1, 1, &[Cell::U(0)]));
    }
    ring.leave();
    let table = table();
    let packet = Packet::parse(&ring.pages[0]).unwrap();
    let times: Vec<u64> = packet.records(&table).map(|r| r.unwrap().time_ns).collect();
    assert_eq!(times, [begin, begin + 9, begin + 10, begin + 500]);
}
