//! The packets of one ring in their order, copies of each beside it, and what does not belong to them any more set aside.

use super::index::FoundPacket;
use crate::image::PagePlace;
use std::cmp::Reverse;

/// A ring's packets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) buffer: u32,
    pub(super) cpu: u32,
    /// By rising sequence number.
    pub(super) slots: Vec<Slot>,
    /// Copies of packets, of which one is enough.
    pub(super) copies: u64,
    /// Packets that contradict newer ones.
    pub(super) stale: u64,
}

/// A packet that was found, and where it belongs in its ring.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) sequence: u64,
    pub(super) begin_ns: u64,
    /// Where it lies, the place with most events in it first.
    pub(super) places: Vec<PagePlace>,
}

/// Puts packets of one buffer and CPU in order. `pages` is the size of the ring, 0 where it is unknown.
///
/// The newest page is right, and each one before it in time must come before it by number: if it does not, it is from before a reset of
/// the ring.
pub(super) fn order((buffer, cpu): (u32, u32), mut found: Vec<FoundPacket>, pages: u64) -> Ring {
    let mut ring = Ring {
        buffer,
        cpu,
        ..Ring::default()
    };
    if let Some(opening) = opening(&found, pages) {
        found.swap_remove(opening);
        ring.stale += 1;
    }
    found.sort_by_key(|page| Reverse((page.begin_ns, page.sequence, page.events, page.whole)));
    for page in found {
        match ring.slots.last_mut() {
            Some(last) if (last.begin_ns, last.sequence) == (page.begin_ns, page.sequence) => {
                last.places.push(page.place);
                ring.copies += 1;
            }
            Some(last) if last.sequence <= page.sequence => ring.stale += 1,
            _ => ring.slots.push(Slot {
                sequence: page.sequence,
                begin_ns: page.begin_ns,
                places: vec![page.place],
            }),
        }
    }
    ring.slots.reverse();
    ring
}

/// The page that was being opened when all stood still, if there is one: it has its new begin and still the number of its last use. It holds
/// nothing that can be read, for its first record, that of the writer that opened it, was not finished.
fn opening(found: &[FoundPacket], pages: u64) -> Option<usize> {
    let (index, newest) = found
        .iter()
        .enumerate()
        .max_by_key(|(_, page)| (page.begin_ns, page.sequence))?;
    let last = found.iter().map(|page| page.sequence).max()?;
    let came_round = pages > 0 && newest.sequence.checked_add(pages) == last.checked_add(1);
    (!newest.whole && came_round && newest.sequence < last).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(place: u64, sequence: u64, begin_ns: u64) -> FoundPacket {
        FoundPacket {
            place: PagePlace(place),
            buffer: 0,
            cpu: 0,
            sequence,
            begin_ns,
            events: 10,
            whole: true,
        }
    }

    fn sequences(ring: &Ring) -> Vec<u64> {
        ring.slots.iter().map(|slot| slot.sequence).collect()
    }

    #[test]
    fn the_fullest_copy_comes_first() {
        let part = FoundPacket {
            events: 3,
            ..page(1, 7, 700)
        };
        let ring = order((0, 0), vec![part, page(2, 6, 600), page(3, 7, 700)], 4);
        assert_eq!(sequences(&ring), [6, 7]);
        assert_eq!(ring.slots[1].places, [PagePlace(3), PagePlace(1)]);
        assert_eq!((ring.copies, ring.stale), (1, 0));
    }

    #[test]
    fn pages_from_before_a_ring_was_reset_are_stale() {
        let ring = order(
            (0, 0),
            vec![page(1, 8, 80), page(2, 9, 90), page(3, 0, 100), page(4, 1, 110)],
            4,
        );
        assert_eq!(sequences(&ring), [0, 1]);
        assert_eq!(ring.stale, 2);
    }

    #[test]
    fn a_page_that_was_being_opened_does_not_make_the_others_old() {
        let opening = FoundPacket {
            whole: false,
            ..page(1, 6, 1000)
        };
        let ring = order(
            (0, 0),
            vec![opening, page(2, 7, 700), page(3, 8, 800), page(4, 9, 900)],
            4,
        );
        assert_eq!(sequences(&ring), [7, 8, 9]);
    }
}
