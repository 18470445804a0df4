//! Reserving room for a record in the page at hand or in the next one, in the hook's own code.

use super::commit::add_locked;
use super::ring::RingSink;
use crate::buffer::bell::{self, Bell};
use crate::buffer::layout::{Mode, offset};
use kestrel_bpf::helper;
use kestrel_compiler::ir::{AluOp, Bits, BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_compiler::sink::{Number, Size};
use kestrel_trace::packet::{self, CAPACITY, HEADER, PAGE, SEALED};

/// Number of further attempts of a reservation, after the first attempt, which is for a record that fits in its page, before it counts as lost: each failure is one
/// nested writer that came first, in a few nanoseconds. The verifier follows every one of them, in every program; the first, which has no loop around it, it follows once.
const TRIES: i64 = 2;

/// Registers that the parts of an attempt share.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    pub(super) region: Vreg,
    /// The position that was read, and the time after it.
    pub(super) old: Vreg,
    pub(super) time: Vreg,
    /// Where the record begins.
    pub(super) begin: Vreg,
    /// Where it goes when another writer came first.
    pub(super) again: BlockId,
    pub(super) done: BlockId,
    /// Whether the time is found without branches, of which the verifier would follow both ways.
    pub(super) straight: bool,
}

/// State that repeated attempts of a reservation share.
pub(super) struct Repeated {
    /// Number of tries.
    pub(super) tries: Operand,
    pub(super) full: BlockId,
}

impl RingSink {
    /// The time of this attempt, not before any that was announced or reserved.
    fn time(&self, b: &mut Builder, a: &Attempt) {
        let time = a.time;
        let now = b.helper(helper::KTIME_GET_NS, &[]);
        b.assign(time, now);
        for word in [offset::ANNOUNCED, offset::RESERVED] {
            let before = b.load(Width::B8, a.region, word as i16);
            if a.straight {
                // By how much it is earlier, or 0.
                let later = b.sub(time, before);
                let sign = b.alu(AluOp::ShiftRightSigned, Bits::B64, later, 63);
                let earlier = b.and(sign, later);
                let latest = b.sub(time, earlier);
                b.assign(time, latest);
                continue;
            }
            let (back, on) = (b.cold_block(), b.block());
            b.branch(Condition::Less, time, before, back, on);
            b.switch_to(back);
            b.assign(time, before);
            b.jump(on);
            b.switch_to(on);
        }
    }

    pub(super) fn swap(&self, b: &mut Builder, a: &Attempt, end: Vreg) {
        b.store(Width::B8, a.region, offset::ANNOUNCED as i16, a.time);
        let seen = b.compare_exchange(Width::B8, a.region, offset::POSITION as i16, a.old, end);
        b.branch_if(Condition::NotEqual, seen, a.old, a.again);
    }

    /// An attempt to reserve a record that fits in its page; one that does not goes to `cross`, with the time and the position that were read.
    pub(super) fn attempt(&self, b: &mut Builder, a: &Attempt, size: Size, cross: BlockId) {
        let old = b.load(Width::B8, a.region, offset::POSITION as i16);
        b.assign(a.old, old);
        self.time(b, a);
        let fits = b.block();
        // Of the last byte taken: a full page's next byte would be in the next one.
        let last = b.sub(a.old, 1);
        let within = b.and(last, i64::from(PAGE - 1));
        match size {
            Size::Constant(size) => b.branch(Condition::Greater, within, PAGE - 1 - size, cross, fits),
            Size::Variable { value, .. } => {
                let end = b.add(within, value);
                b.branch(Condition::Greater, end, PAGE - 1, cross, fits);
            }
        }
        b.switch_to(fits);
        let end = b.add(a.old, size.operand());
        self.swap(b, a, end);
        b.assign(a.begin, a.old);
        b.jump(a.done);
    }

    pub(super) fn next_page(&self, b: &mut Builder, a: &Attempt, repeated: &Repeated, size: Size) {
        let last = b.sub(a.old, 1);
        let page_start = b.and(last, -i64::from(PAGE));
        let next = b.add(page_start, PAGE);
        if self.bell == Bell::QuarterFull {
            // Once at most, and with tries left.
            let (first, on) = (b.block(), b.block());
            let tries = b.materialize(repeated.tries);
            b.branch(Condition::Equal, tries, 0, first, on);
            b.switch_to(first);
            bell::emit_for_page(b, a.region, next, a.again);
            b.jump(on);
            b.switch_to(on);
        }
        let new = self.page(b, a.region, next);
        let stale = match self.geometry.mode {
            Mode::Stream => self.leave_unless_read(b, a.region, repeated.full, next, new),
            Mode::Overwrite => self.leave_unless_whole(b, repeated.full, next, new),
        };
        // Before the swap: of two pages the later then never reports fewer.
        let lost = b.load(Width::B8, a.region, offset::LOST as i16);
        let begin = b.add(next, HEADER);
        let end = b.add(begin, size.operand());
        self.swap(b, a, end);
        b.assign(a.begin, begin);
        self.seal(b, a, page_start, lost);
        b.store(Width::B8, new, packet::offset::TIMESTAMP_BEGIN as i16, a.time);
        let zero = b.constant(0);
        let less = b.sub(zero, stale);
        b.atomic_add(Width::B8, new, packet::offset::COMMITTED as i16, less);
        let sequence = b.shift_right(next, i64::from(PAGE.trailing_zeros()));
        b.store(Width::B8, new, packet::offset::SEQUENCE as i16, sequence);
        b.jump(a.done);
    }

    /// Gives the committed word of the page's last use, which no writer changes any more.
    pub(super) fn leave_unless_read(
        &self,
        b: &mut Builder,
        region: Vreg,
        full: BlockId,
        next: Vreg,
        new: Vreg,
    ) -> Vreg {
        let consumed = b.load(Width::B8, region, offset::CONSUMED as i16);
        let filled = b.sub(next, consumed);
        let most = self.geometry.data() - PAGE;
        b.branch_if(Condition::Greater, filled, most, full);
        b.load(Width::B8, new, packet::offset::COMMITTED as i16)
    }

    /// Leaves a page in overwrite mode, without a reader; the sequence number is read first, since with an old one the committed word may be old, too.
    pub(super) fn leave_unless_whole(&self, b: &mut Builder, full: BlockId, next: Vreg, new: Vreg) -> Vreg {
        let sequence = b.load(Width::B8, new, packet::offset::SEQUENCE as i16);
        let stale = b.load(Width::B8, new, packet::offset::COMMITTED as i16);
        let (used, free) = (b.block(), b.block());
        b.branch(Condition::Less, next, self.geometry.data(), free, used);
        b.switch_to(used);
        let round = b.add(sequence, self.geometry.pages);
        let expected = b.shift_right(next, i64::from(PAGE.trailing_zeros()));
        b.branch_if(Condition::NotEqual, round, expected, full);
        // These bits of the low half are enough, because the bytes of two uses of a page together are fewer.
        let bytes = b.and(stale, i64::from(2 * PAGE - 1));
        b.branch(Condition::NotEqual, bytes, CAPACITY + SEALED, full, free);
        b.switch_to(free);
        stale
    }

    /// Attempts after a first one, which found too little room in its page or another writer before it; goes to where the first one goes.
    pub(super) fn attempts(
        &self,
        b: &mut Builder,
        first: &Attempt,
        (first_cross, anew): (BlockId, BlockId),
        (number, size): (Number, Size),
        lost: BlockId,
    ) {
        let tries = b.vreg();
        let (start, cross, again, full) = (b.cold_block(), b.cold_block(), b.cold_block(), b.cold_block());
        for (from, to) in [(first_cross, cross), (anew, start)] {
            b.switch_to(from);
            b.assign(tries, 0);
            b.jump(to);
        }
        let a = Attempt {
            again,
            straight: true,
            ..*first
        };
        let repeated = Repeated {
            tries: tries.into(),
            full,
        };
        b.switch_to(start);
        self.attempt(b, &a, size, cross);
        b.switch_to(cross);
        self.next_page(b, &a, &repeated, size);
        b.switch_to(again);
        let once_more = b.add(tries, 1);
        b.assign(tries, once_more);
        b.branch(Condition::Less, tries, self.most_tries(), start, full);
        b.switch_to(full);
        self.lose(b, first.region, number, lost);
    }

    pub(super) fn most_tries(&self) -> i64 {
        // The first is spent where it wakes the reader.
        TRIES + i64::from(self.bell == Bell::QuarterFull)
    }

    /// Says at what time the last record was reserved, and writes it into the record, whose number is 0 for now.
    pub(super) fn begin_record(&self, b: &mut Builder, region: Vreg, begin: Vreg, time: Vreg) {
        b.store(Width::B8, region, offset::RESERVED as i16, time);
        let record = self.record(b, region, begin);
        let header = b.shift_left(time, 16);
        b.store(Width::B8, record, 0, header);
    }

    pub(super) fn seal(&self, b: &mut Builder, a: &Attempt, page_start: Vreg, lost: Vreg) {
        let used = b.sub(a.old, page_start);
        let left = self.page(b, a.region, page_start);
        b.store(Width::B8, left, packet::offset::TIMESTAMP_END as i16, a.time);
        let bits = b.shift_left(used, 3);
        b.store(Width::B8, left, packet::offset::CONTENT_SIZE as i16, bits);
        b.store(Width::B8, left, packet::offset::DISCARDED as i16, lost);
        let rest = b.constant(i64::from(PAGE + SEALED));
        let rest = b.sub(rest, used);
        add_locked(b, a.region, left, rest);
    }
}
