//! Committing a record, and adding to the committed word of its page.

use super::ring::RingSink;
use crate::buffer::bell;
use crate::buffer::layout::offset;
use kestrel_compiler::ir::{Builder, Condition, Vreg, Width};
use kestrel_compiler::sink::{Reservation, Size};
use kestrel_trace::packet;

/// Distance in bytes from a record to the words that are read for later ones: some tens of records. Together with [`LINES`] it is within the
/// slack behind the data.
const AHEAD: u32 = 2048;
/// Bytes of a cache line.
const LINE: u32 = 64;
/// Most lines that one record reads ahead; the processor's own prefetcher sees larger ones coming.
const LINES: u32 = 8;

impl RingSink {
    /// Makes a record whole for readers, in whichever ring it was reserved.
    pub(crate) fn emit_commit(b: &mut Builder, reservation: Reservation, alone: bool) {
        let &[region, page, number, ref bell @ ..] = reservation.kept.as_slice() else {
            return;
        };
        b.store(Width::B2, reservation.record, 0, number);
        let events = i64::from(reservation.counted) << 32;
        let add = match reservation.size {
            Size::Constant(size) => b.constant(i64::from(size) | events),
            Size::Variable { value, .. } => {
                let events = b.constant(events);
                b.or(events, value)
            }
        };
        if alone {
            add_alone(b, region, page, add);
        } else {
            add_locked(b, region, page, add);
        }
        if let [region] = bell {
            bell::emit_for_record(b, *region);
        }
        let lines = match reservation.size {
            Size::Constant(size) => (size / LINE).clamp(1, LINES),
            Size::Variable { .. } => 1,
        };
        for line in 0..lines {
            b.touch(reservation.record, (AHEAD + line * LINE) as i16);
        }
    }
}

/// Adds to a page's committed word without a lock: only interrupts come between, and they see that it is being changed.
fn add_alone(b: &mut Builder, region: Vreg, page: Vreg, add: Vreg) {
    let (adding, left) = (offset::ADDING as i16, offset::LEFT as i16);
    let (nested, free, flush, done) = (b.cold_block(), b.block(), b.cold_block(), b.block());
    let busy = b.load(Width::B8, region, adding);
    let waiting = b.load(Width::B8, region, left);
    let either = b.or(busy, waiting);
    b.branch(Condition::NotEqual, either, 0, nested, free);

    b.switch_to(free);
    let own = b.sub(page, region);
    b.store(Width::B8, region, adding, own);
    let before = b.load(Width::B8, page, packet::offset::COMMITTED as i16);
    let after = b.add(before, add);
    b.store(Width::B8, page, packet::offset::COMMITTED as i16, after);
    b.store(Width::B8, region, adding, 0);
    let waiting = b.load(Width::B8, region, left);
    b.branch(Condition::NotEqual, waiting, 0, flush, done);

    // While something waits, all others lock the word itself.
    b.switch_to(flush);
    b.atomic_add(Width::B8, page, packet::offset::COMMITTED as i16, waiting);
    b.store(Width::B8, region, left, 0);
    b.jump(done);

    b.switch_to(nested);
    add_locked(b, region, page, add);
    b.jump(done);
    b.switch_to(done);
}

/// Adds to a page's committed word, which others may change, too: where the interrupted writer is changing that very word, leaves it to it.
pub(super) fn add_locked(b: &mut Builder, region: Vreg, page: Vreg, add: Vreg) {
    let (leave, lock, done) = (b.cold_block(), b.block(), b.block());
    let busy = b.load(Width::B8, region, offset::ADDING as i16);
    let own = b.sub(page, region);
    b.branch(Condition::Equal, busy, own, leave, lock);
    b.switch_to(leave);
    b.atomic_add(Width::B8, region, offset::LEFT as i16, add);
    b.jump(done);
    b.switch_to(lock);
    b.atomic_add(Width::B8, page, packet::offset::COMMITTED as i16, add);
    b.jump(done);
    b.switch_to(done);
}
