//! The ring's writer: the code that a hook runs to reserve room for a record and to commit it, as intermediate code.
//!
//! ```text
//!              position, time, page of position
//!                       │
//!          record fits in the page?
//!         yes │                 │ no, or another writer was first (rare): all of it again, up to a few times
//!             │        next page free? ── no ──► count as lost
//!             │                 │ yes
//!             │        a reader sleeps until so much is there? ── yes ──► wake it, begin again
//!             │                 │ no
//!       announce time      announce time
//!       cas position       cas position to the next page
//!             │            seal the page just left: end time, content size, unused rest
//!             │            open the next one: begin time, committed, sequence number last
//!             └────────┬────────┘
//!          reserved time, header without number, the caller's fields, number, then committed += length
//! ```
//!
//! Interrupts and NMIs on the same CPU run this code between any two of its instructions, and so may another task where a writer can
//! be preempted. The writer that wins the compare-and-swap owns the bytes it moved over; losing it means that another came first, and a
//! new time is taken.
//!
//! *Times* never run backwards within a ring, although an NMI's clock may be ahead of what is read after it (kernel/time/timekeeping.c,
//! `ktime_get_mono_fast_ns`): a time is at least what was announced and what was reserved. Either word alone can be set back by a writer that
//! was interrupted between reading and writing it: the first only before its swap, which then fails, and the second only after, when the first
//! holds what the interrupter wrote. (Both at once: a writer interrupted in the first gap by one interrupted in the second by an
//! NMI whose clock was so far ahead that it still is when all have returned. A clock that is only slewed is not.)
//!
//! *A page's committed word* only grows within one use (see `kestrel_trace::packet`): its opener takes the value left from the last
//! use, read before the swap, off again, so that records of nested writers count whether they come before or after. The sequence number
//! comes last: while it is old, the committed word may be, too, and no reader takes the page for whole.
//!
//! *The next page is free* when it has been read (stream mode), or when its last use is whole (overwrite mode): a ring that comes round to
//! a page in which an interrupted or preempted writer still works refuses records until that one has finished.
//!
//! *Cold lines.* A ring is larger than the nearest caches, and its reader has had each line in those of another CPU. The commit, a locked
//! instruction, waits until everything before it is written, for such a line as long as for all the rest; so each record, when it is
//! committed, reads a line of what comes later. The program does not wait for that.
//!
//! *Committing alone.* Where no other task can come between, the committed word is changed without a lock, which would cost a third of a
//! record. Interrupts still come: the writer that changes it says so before (`adding`, the page) and an interrupt that has to add to that page's word leaves
//! its share beside (`left`), which the interrupted writer adds when it has done. While something is left, everybody else takes the lock.
//! A processor that is stopped for good within these few instructions leaves the shares of what interrupted it there: a reader of the ring counts
//! them, and a memory image's pages then tell of fewer torn records than there were.
//!
//! *A record's number* is 0, which no event has, until the record is committed: an unfinished one is never taken for an event.

use super::bell::{self, Bell};
use super::layout::{COUNTER, Geometry, Mode, SLACK, offset};
use super::name::MESSAGES;
use kestrel_bpf::helper;
use kestrel_compiler::check::tree::Destination;
use kestrel_compiler::ir::{AluOp, Bits, BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_compiler::sink::{Number, Refused, Reservation, Sink, Size, is_piece};
use kestrel_trace::packet::{self, CAPACITY, HEADER, PAGE, SEALED};

/// How often a reservation is tried anew, after the first attempt, which is for a record that fits in its page, before it counts as lost: each failure is one
/// nested writer that came first, in a few nanoseconds. The verifier follows every one of them, in every program; the first, which has no loop around it, it follows once.
const TRIES: i64 = 2;

/// How far ahead of a record lies what is read for later ones, in bytes: some tens of records. Together with [`LINES`] it is within the
/// slack behind the data.
const AHEAD: u32 = 2048;
/// Bytes of a cache line.
const LINE: u32 = 64;
/// Most lines that one record reads ahead; the processor's own prefetcher sees larger ones coming.
const LINES: u32 = 8;

/// Name by which programs refer to a buffer's map.
pub fn map_name(buffer: &str) -> String {
    format!("ring:{buffer}")
}

/// Writes records into one buffer.
#[derive(Clone, Debug)]
pub struct RingSink {
    /// The buffer's map, as programs name it.
    pub map: String,
    /// The buffer's shape.
    pub geometry: Geometry,
    /// Whether the program has copies, which may run beside it on one CPU.
    pub reentrant: bool,
    /// What wakes the buffer's reader.
    pub bell: Bell,
    /// What is a function of the program's own.
    pub apart: Apart,
}

/// What of the writer's code is a function of the program's own, which the verifier goes through once and not for every record. Where programs call
/// others (tail calls), or have switched preemption off, the kernel takes no such functions or not everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apart {
    /// None of it.
    #[default]
    Nothing,
    /// What follows where the first attempt to reserve fails: a record costs no call.
    Rest,
    /// All but the record's contents.
    All,
}

/// What an attempt gives that is made apart instead of where the record begins: no record begins at these positions, which are a page's header's.
mod outcome {
    /// The ring is full.
    pub(super) const FULL: i64 = 0;
    /// Another writer came first, or the reader was woken.
    pub(super) const AGAIN: i64 = 1;
}

/// Registers that the parts of an attempt share.
#[derive(Clone, Copy)]
struct Attempt {
    region: Vreg,
    /// The position that was read, and the time after it.
    old: Vreg,
    time: Vreg,
    /// Where the record begins.
    begin: Vreg,
    /// Where it goes when another writer came first.
    again: BlockId,
    done: BlockId,
}

/// State that repeated attempts of a reservation share.
struct Repeated {
    /// Number of tries.
    tries: Operand,
    full: BlockId,
}

impl RingSink {
    fn position_mask(&self) -> i64 {
        i64::from(self.geometry.data() - 1)
    }

    fn region(&self, b: &mut Builder, lost: BlockId) -> Vreg {
        let map = b.external(&self.map);
        let cpu = b.helper(helper::GET_SMP_PROCESSOR_ID, &[]);
        let key = b.slot(4, 4);
        let key = b.slot_address(key, 0);
        b.store(Width::B4, key, 0, cpu);
        let map = b.map_pointer(map);
        let region = b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        b.branch_if(Condition::Equal, region, 0, lost);
        region
    }

    /// Address of the page that holds a position.
    fn page(&self, b: &mut Builder, region: Vreg, position: Vreg) -> Vreg {
        let within = b.and(position, self.position_mask() & !i64::from(PAGE - 1));
        let page = b.add(region, within);
        b.add(page, self.geometry.control())
    }

    /// Address of the counters of an event number: recorded, then lost.
    fn counters(&self, b: &mut Builder, region: Vreg, number: Number) -> Vreg {
        let counters = match number {
            Operand::Imm(n) => b.add(region, n * i64::from(COUNTER)),
            Operand::Reg(n) => {
                let at = b.and(n, i64::from(self.geometry.number_mask()));
                let at = b.alu(AluOp::Mul, Bits::B64, at, COUNTER);
                b.add(region, at)
            }
        };
        b.add(counters, offset::COUNTERS)
    }

    /// Counts a record. One program writes all records of a number, and the kernel never runs a program on a CPU where it is running
    /// already (`prog->active` or `bpf_prog_active`), so no other program changes this counter meanwhile and no lock is needed; but for programs that
    /// have copies ([`Self::reentrant`]).
    fn count_recorded(&self, b: &mut Builder, region: Vreg, number: Number) {
        let counters = self.counters(b, region, number);
        if self.reentrant {
            b.atomic_add(Width::B8, counters, 0, 1);
            return;
        }
        let before = b.load(Width::B8, counters, 0);
        let after = b.add(before, 1);
        b.store(Width::B8, counters, 0, after);
    }

    /// Counts a record that is not taken, and leaves. A piece of a stack is missed by who finds the stack's frames.
    fn lose(&self, b: &mut Builder, region: Vreg, number: Number, lost: BlockId) {
        if is_piece(number) {
            return b.jump(lost);
        }
        b.atomic_add(Width::B8, region, offset::LOST as i16, 1);
        let counters = self.counters(b, region, number);
        b.atomic_add(Width::B8, counters, 8, 1);
        b.jump(lost);
    }

    /// Counts a record as lost because the buffer is frozen, and goes to `lost`.
    pub fn emit_lose_frozen(&self, b: &mut Builder, number: Number, lost: BlockId) {
        if is_piece(number) {
            return b.jump(lost);
        }
        let region = self.region(b, lost);
        self.check_number(b, number, lost);
        b.atomic_add(Width::B8, region, offset::FROZEN as i16, 1);
        self.lose(b, region, number, lost);
    }

    /// Leaves if there are no counters for a number that is known at run time only.
    fn check_number(&self, b: &mut Builder, number: Number, lost: BlockId) {
        if let Operand::Reg(n) = number {
            b.branch_if(Condition::GreaterEqual, n, self.geometry.events, lost);
        }
    }

    /// Registers that a reservation keeps for its commit: where each record may wake a reader, the control page of the bell, too.
    pub fn kept(&self) -> usize {
        3 + usize::from(self.bell == Bell::Records)
    }

    /// Adds to the commit a look at the ring's bell, whatever wakes its reader.
    pub fn give_bell(reservation: &mut Reservation) {
        reservation.kept.extend(reservation.kept.first().copied());
    }

    /// Makes a record whole for readers, in whichever ring it was reserved.
    pub fn emit_commit(b: &mut Builder, reservation: Reservation, alone: bool) {
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

    /// The time of this attempt, not before any that was announced or reserved.
    fn time(&self, b: &mut Builder, region: Vreg, time: Vreg) {
        let now = b.helper(helper::KTIME_GET_NS, &[]);
        b.assign(time, now);
        for word in [offset::ANNOUNCED, offset::RESERVED] {
            let before = b.load(Width::B8, region, word as i16);
            let (back, on) = (b.cold_block(), b.block());
            b.branch(Condition::Less, time, before, back, on);
            b.switch_to(back);
            b.assign(time, before);
            b.jump(on);
            b.switch_to(on);
        }
    }

    fn swap(&self, b: &mut Builder, a: &Attempt, end: Vreg) {
        b.store(Width::B8, a.region, offset::ANNOUNCED as i16, a.time);
        let seen = b.compare_exchange(Width::B8, a.region, offset::POSITION as i16, a.old, end);
        b.branch_if(Condition::NotEqual, seen, a.old, a.again);
    }

    /// An attempt to reserve a record that fits in its page; one that does not goes to `cross`, with the time and the position that were read.
    fn attempt(&self, b: &mut Builder, a: &Attempt, size: Size, cross: BlockId) {
        let old = b.load(Width::B8, a.region, offset::POSITION as i16);
        b.assign(a.old, old);
        self.time(b, a.region, a.time);
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

    fn next_page(&self, b: &mut Builder, a: &Attempt, repeated: &Repeated, size: Size) {
        let last = b.sub(a.old, 1);
        let page_start = b.and(last, -i64::from(PAGE));
        let next = b.add(page_start, PAGE);
        if self.bell == Bell::Filled {
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
        // Before the swap: of two pages the later then never tells of fewer.
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
    fn leave_unless_read(&self, b: &mut Builder, region: Vreg, full: BlockId, next: Vreg, new: Vreg) -> Vreg {
        let consumed = b.load(Width::B8, region, offset::CONSUMED as i16);
        let filled = b.sub(next, consumed);
        let most = self.geometry.data() - PAGE;
        b.branch_if(Condition::Greater, filled, most, full);
        b.load(Width::B8, new, packet::offset::COMMITTED as i16)
    }

    /// Leaves a page in overwrite mode, without a reader; the sequence number is read first, since with an old one the committed word may be old, too.
    fn leave_unless_whole(&self, b: &mut Builder, full: BlockId, next: Vreg, new: Vreg) -> Vreg {
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
    fn attempts(
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
        let a = Attempt { again, ..*first };
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

    fn most_tries(&self) -> i64 {
        // The first is spent where it wakes the reader.
        TRIES + i64::from(self.bell == Bell::Filled)
    }

    /// The attempts as a function of the program's own, which gives where the record begins, its time written, or that the ring is full, which is counted by
    /// then. One attempt is another function: so the verifier follows one of them and so many calls.
    fn attempts_apart(&self, b: &mut Builder, number: Number, size: Size) -> Vreg {
        let name = format!("reserve {}", self.map);
        b.own(&name, |b, [number, size]| {
            let (full, leave) = (b.block(), b.block());
            let tries = self.most_tries() + i64::from(self.apart == Apart::All);
            let found = b.vreg();
            for tried in 0..tries {
                let one = self.attempt_apart(b, size, tried);
                b.assign(found, one);
                let again = b.block();
                b.branch(Condition::Equal, found, outcome::AGAIN, again, leave);
                b.switch_to(again);
            }
            b.jump(full);
            b.switch_to(leave);
            let taken = b.block();
            b.branch(Condition::Equal, found, outcome::FULL, full, taken);
            b.switch_to(taken);
            b.exit(found);
            b.switch_to(full);
            let out = b.block();
            let region = self.region(b, out);
            self.lose(b, region, number.into(), out);
            b.switch_to(out);
            b.exit(outcome::FULL);
        });
        b.call(&name, &[number, size.operand()])
    }

    fn attempt_apart(&self, b: &mut Builder, size: Vreg, tried: i64) -> Vreg {
        let name = format!("attempt {}", self.map);
        b.own(&name, |b, [size, tried]| {
            let (full, again, cross, done) = (b.block(), b.block(), b.block(), b.block());
            let a = Attempt {
                region: self.region(b, full),
                old: b.vreg(),
                time: b.vreg(),
                begin: b.vreg(),
                again,
                done,
            };
            let size = Size::Variable {
                value: size,
                max: CAPACITY,
            };
            self.attempt(b, &a, size, cross);
            b.switch_to(cross);
            let repeated = Repeated {
                tries: tried.into(),
                full,
            };
            self.next_page(b, &a, &repeated, size);
            b.switch_to(done);
            self.begin_record(b, a.region, a.begin, a.time);
            b.exit(a.begin);
            b.switch_to(again);
            b.exit(outcome::AGAIN);
            b.switch_to(full);
            b.exit(outcome::FULL);
        });
        b.call(&name, &[size.into(), tried.into()])
    }

    /// Reserves by a call alone; the commit will be one, too.
    fn reserve_apart(&self, b: &mut Builder, number: Number, size: Size, lost: BlockId) -> Reservation {
        self.check_number(b, number, lost);
        let begin = self.attempts_apart(b, number, size);
        b.branch_if(Condition::Equal, begin, outcome::FULL, lost);
        let region = self.region(b, lost);
        let record = self.record(b, region, begin);
        Reservation {
            record,
            kept: vec![begin, b.materialize(number)],
            size,
            counted: true,
            apart: Some(self.map.clone()),
        }
    }

    /// Makes a record whole that was reserved by a call.
    pub fn commit_apart(&self, b: &mut Builder, reservation: &Reservation, alone: bool) {
        let &[begin, number] = reservation.kept.as_slice() else {
            return;
        };
        let whose = if alone { "alone " } else { "" };
        let name = format!("commit {whose}{}", self.map);
        b.own(&name, |b, [begin, number, size]| {
            let out = b.block();
            let region = self.region(b, out);
            if self.counts() {
                self.count_recorded(b, region, number.into());
            }
            let mut kept = vec![region, self.page(b, region, begin), number];
            if self.bell == Bell::Records {
                kept.push(region);
            }
            let whole = Reservation {
                record: self.record(b, region, begin),
                kept,
                size: Size::Variable {
                    value: size,
                    max: CAPACITY,
                },
                counted: true,
                apart: None,
            };
            Self::emit_commit(b, whole, alone);
            b.jump(out);
            b.switch_to(out);
            b.exit(0);
        });
        b.call(&name, &[begin.into(), number.into(), reservation.size.operand()]);
    }

    /// Whether records are counted where they are written: of other streams each reader has all to count.
    fn counts(&self) -> bool {
        self.geometry.mode == Mode::Overwrite || self.map == map_name(MESSAGES)
    }

    /// The address of the record at a position.
    fn record(&self, b: &mut Builder, region: Vreg, begin: Vreg) -> Vreg {
        let within = b.and(begin, self.position_mask() & !7);
        let record = b.add(region, within);
        b.add(record, self.geometry.control())
    }

    /// Says at what time the last record was reserved, and writes it into the record, whose number is 0 for now.
    fn begin_record(&self, b: &mut Builder, region: Vreg, begin: Vreg, time: Vreg) {
        b.store(Width::B8, region, offset::RESERVED as i16, time);
        let record = self.record(b, region, begin);
        let header = b.shift_left(time, 16);
        b.store(Width::B8, record, 0, header);
    }

    fn seal(&self, b: &mut Builder, a: &Attempt, page_start: Vreg, lost: Vreg) {
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
fn add_locked(b: &mut Builder, region: Vreg, page: Vreg, add: Vreg) {
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

impl Sink for RingSink {
    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        _to: &Destination,
        lost: BlockId,
    ) -> Result<Reservation, Refused> {
        if size.max() > CAPACITY {
            return Err(Refused(format!(
                "it may take {} bytes, and one page of the ring holds {CAPACITY}",
                size.max()
            )));
        }
        if self.apart == Apart::All && !is_piece(number) {
            return Ok(self.reserve_apart(b, number, size, lost));
        }
        let region = self.region(b, lost);
        self.check_number(b, number, lost);
        let (first_cross, anew, done) = (b.cold_block(), b.cold_block(), b.block());
        let first = Attempt {
            region,
            old: b.vreg(),
            time: b.vreg(),
            begin: b.vreg(),
            again: anew,
            done,
        };
        self.attempt(b, &first, size, first_cross);
        let begin = first.begin;
        match self.apart != Apart::Nothing && !is_piece(number) {
            true => {
                let (rest, taken) = (b.cold_block(), b.block());
                for from in [first_cross, anew] {
                    b.switch_to(from);
                    b.jump(rest);
                }
                b.switch_to(rest);
                let found = self.attempts_apart(b, number, size);
                b.branch_if(Condition::Equal, found, outcome::FULL, lost);
                b.assign(begin, found);
                b.jump(taken);
                b.switch_to(done);
                self.begin_record(b, region, begin, first.time);
                b.jump(taken);
                b.switch_to(taken);
            }
            false => {
                self.attempts(b, &first, (first_cross, anew), (number, size), lost);
                b.switch_to(done);
                self.begin_record(b, region, begin, first.time);
            }
        }
        let record = self.record(b, region, begin);
        let page = self.page(b, region, begin);
        let counted = !is_piece(number);
        if self.counts() && counted {
            self.count_recorded(b, region, number);
        }
        let number = b.materialize(number);
        let mut kept = vec![region, page, number];
        if self.bell == Bell::Records {
            // Once more: its control page says whether a reader waits for the record.
            kept.push(region);
        }
        Ok(Reservation {
            record,
            kept,
            size,
            counted,
            apart: None,
        })
    }

    fn commit(&self, b: &mut Builder, reservation: Reservation, alone: bool) {
        match reservation.apart {
            Some(_) => self.commit_apart(b, &reservation, alone),
            None => Self::emit_commit(b, reservation, alone),
        }
    }

    fn slack(&self) -> u32 {
        SLACK
    }

    fn wants_preemption_off(&self) -> bool {
        // It could come round under a writer that was preempted. For a stream the pair would cost more than the lock that it saves.
        self.geometry.mode == Mode::Overwrite
    }
}
