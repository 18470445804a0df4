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
//! record. Interrupts still come: a writer announces its change (`adding`, the page), and the writer of an interrupt that would change the same page's word adds
//! its bytes to `left` instead, which the interrupted writer then adds to the word. While `left` is not zero, all other writers take the lock.
//! A processor that is stopped for good within these few instructions leaves the shares of what interrupted it there: a reader of the ring counts
//! them, and a memory image's pages then tell of fewer torn records than there were.
//!
//! *A record's number* is 0, which no event has, until the record is committed: an unfinished one is never taken for an event.

mod commit;
mod own_function;
mod reserve;
mod ring;

pub use ring::{Outlined, RingSink, map_name};

use super::layout::{Mode, SLACK};
use kestrel_compiler::check::tree::Destination;
use kestrel_compiler::ir::{BlockId, Builder, Condition};
use kestrel_compiler::sink::{Number, Reservation, Sink, SinkError, Size, is_piece};
use kestrel_trace::packet::CAPACITY;
use own_function::outcome;
use reserve::Attempt;

impl Sink for RingSink {
    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        _to: &Destination,
        lost: BlockId,
    ) -> Result<Reservation, SinkError> {
        if size.max() > CAPACITY {
            return Err(SinkError(format!(
                "it may take {} bytes, and one page of the ring holds {CAPACITY}",
                size.max()
            )));
        }
        if self.reserves_apart(number) {
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
            straight: false,
        };
        self.attempt(b, &first, size, first_cross);
        let begin = first.begin;
        // Nearly every record finds room at its first attempt, on the page in use: that alone stands in line. Further attempts are a call where the program
        // has functions, which keeps the verifier from following them once for every record of a program.
        match self.outlined != Outlined::None && !is_piece(number) {
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
        Ok(self.reservation(b, (region, page, record), number, size))
    }

    fn prepare(&self, b: &mut Builder, records: usize, skip: BlockId) {
        if self.brief && self.outlined == Outlined::All && records > 1 {
            let region = self.region(b, skip);
            b.set_named_value(&self.map, region);
        }
    }

    fn identifies(&self, number: Number) -> bool {
        self.brief && self.reserves_apart(number)
    }

    fn commit(&self, b: &mut Builder, reservation: Reservation, alone: bool) {
        match reservation.subprogram_map {
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
