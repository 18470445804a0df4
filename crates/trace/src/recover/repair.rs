//! One page as a packet that any reader of CTF accepts: whole ones stay as they are once each record was looked at, others are closed after the last good one.

use crate::ctf::packet::{NotAPacket, Packet, Page, Sealed, State, close, seal};
use crate::decode::EventTable;
use crate::packet::{HEADER, offset};

/// Result of repairing a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repaired {
    /// Whether nothing of it is missing.
    pub(super) whole: bool,
    /// Records in it.
    pub(super) kept: u32,
    /// Records that were committed and cannot be found behind one that was not.
    pub(super) torn: u32,
}

/// Makes a page a packet. `discarded` is what the packet before it in its ring says: a page that no writer has left does not have that number yet, or, in the ring of a
/// program's thread, has it already.
pub(super) fn repair(page: &mut Page, events: &EventTable, discarded: u64) -> Result<Repaired, NotAPacket> {
    let packet = Packet::parse(page)?;
    if packet.state == State::Whole {
        let Sealed { events: kept, torn } = check(page, events)?;
        return Ok(Repaired {
            whole: torn == 0,
            kept,
            torn,
        });
    }
    let at = offset::DISCARDED as usize;
    let discarded = discarded.max(packet.events_discarded);
    page[at..at + 8].copy_from_slice(&discarded.to_le_bytes());
    let Sealed { events: kept, torn } = seal(page, events)?;
    Ok(Repaired {
        whole: false,
        kept,
        torn,
    })
}

/// Looks at each record of a page that says it is whole; where one does not hold together, the page ends before it.
///
/// The writer that opens a page moves the ring's position before it touches the page's header: a page that was taken again may still say that it is
/// whole. Its new records are later than its end.
fn check(page: &mut Page, events: &EventTable) -> Result<Sealed, NotAPacket> {
    let packet = Packet::parse(page)?;
    let (mut end, mut last_ns, mut kept) = (HEADER, packet.begin_ns, 0);
    for record in packet.records(events).map_while(Result::ok) {
        if record.time_ns > packet.end_ns {
            break;
        }
        end += record.bytes.len() as u32;
        last_ns = record.time_ns;
        kept += u32::from(!record.is_stack_piece());
    }
    let all = end as usize == HEADER as usize + packet.content().len();
    let torn = match packet.events.saturating_sub(kept) {
        0 if !all => 1,
        torn => torn,
    };
    if !all {
        close(page, end, last_ns, kept);
    }
    Ok(Sealed { events: kept, torn })
}
