//! Reserving and committing by functions of the program's own, which the verifier goes through once and not for every record.

use super::reserve::{Attempt, Repeated};
use super::ring::{Outlined, RingSink};
use crate::buffer::bell::Bell;
use kestrel_bpf::helper;
use kestrel_compiler::codegen::lower::emit_identity;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg};
use kestrel_compiler::sink::{Number, Reservation, Size};
use kestrel_trace::packet::CAPACITY;

/// Results of an attempt that is made in a function of its own instead of where the record begins: no record begins at these positions, which are a page's header's.
pub(super) mod outcome {
    /// The ring is full.
    pub(in super::super) const FULL: i64 = 0;
    /// Another writer came first, or the reader was woken.
    pub(in super::super) const AGAIN: i64 = 1;
}

impl RingSink {
    /// The attempts to reserve room as a function of the program's own. It returns where the record begins, with its time written, or FULL, with the loss
    /// counted. One attempt is another function: the verifier follows it once, and then only calls.
    pub(super) fn attempts_apart(&self, b: &mut Builder, number: Number, size: Size) -> Vreg {
        let name = format!("reserve {}", self.map);
        b.own(&name, |b, [number, size]| {
            let leave = b.block();
            // Where no attempt is made before.
            let tries = self.most_tries() + i64::from(self.reserves_apart(0.into()));
            let found = b.vreg();
            let last = tries - 1;
            for tried in 0..tries {
                let one = self.attempt_apart(b, number, size, tried, last);
                b.assign(found, one);
                if tried < last {
                    b.branch_if(Condition::NotEqual, found, outcome::AGAIN, leave);
                }
            }
            b.jump(leave);
            b.switch_to(leave);
            b.exit(found);
        });
        b.call(&name, &[number, size.operand()])
    }

    /// One attempt. The one with number `last` counts the record as lost also where another writer came first.
    fn attempt_apart(&self, b: &mut Builder, number: Vreg, size: Vreg, tried: i64, last: i64) -> Vreg {
        let name = format!("attempt {}", self.map);
        b.own(&name, |b, [size, tried, number]| {
            let (out, full, again, cross, done) = (b.block(), b.block(), b.block(), b.block(), b.block());
            let a = Attempt {
                region: self.region(b, out),
                old: b.vreg(),
                time: b.vreg(),
                begin: b.vreg(),
                again,
                done,
                straight: true,
            };
            let size = Size::Variable {
                value: size,
                max: CAPACITY,
            };
            // Here, because the verifier reaches the loss on several paths.
            let counters = self.counters(b, a.region, number.into());
            self.attempt(b, &a, size, cross);
            b.switch_to(cross);
            let repeated = Repeated {
                tries: tried.into(),
                full,
            };
            self.next_page(b, &a, &repeated, size);
            b.switch_to(done);
            self.begin_record(b, a.region, a.begin, a.time);
            if self.brief {
                let record = self.record(b, a.region, a.begin);
                let thread = b.helper(helper::GET_CURRENT_PID_TGID, &[]);
                emit_identity(b, thread, record);
            }
            b.exit(a.begin);
            b.switch_to(again);
            b.branch_if(Condition::Equal, tried, last, full);
            b.exit(outcome::AGAIN);
            b.switch_to(full);
            Self::count_lost(b, a.region, counters);
            b.jump(out);
            b.switch_to(out);
            b.exit(outcome::FULL);
        });
        b.call(&name, &[size.into(), tried.into(), number.into()])
    }

    /// Reserves by a call alone; so is the commit where all is outlined.
    pub(super) fn reserve_apart(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        lost: BlockId,
    ) -> Reservation {
        self.check_number(b, number, lost);
        let begin = self.attempts_apart(b, number, size);
        b.branch_if(Condition::Equal, begin, outcome::FULL, lost);
        let region = self.own_region(b, lost);
        let record = self.record(b, region, begin);
        if self.outlined != Outlined::All {
            let page = self.page(b, region, begin);
            return self.reservation(b, (region, page, record), number, size);
        }
        Reservation {
            record,
            kept: vec![begin, b.materialize(number)],
            size,
            counted: true,
            subprogram_map: Some(self.map.clone()),
        }
    }

    /// Makes a record whole that was reserved by a call.
    pub(crate) fn commit_apart(&self, b: &mut Builder, reservation: &Reservation, alone: bool) {
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
                subprogram_map: None,
            };
            Self::emit_commit(b, whole, alone);
            b.jump(out);
            b.switch_to(out);
            b.exit(0);
        });
        b.call(&name, &[begin.into(), number.into(), reservation.size.operand()]);
    }
}
