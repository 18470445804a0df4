//! Totals of per-CPU maps: the values of all CPUs put together by a loop over them.

use super::Lower;
use crate::check::tree::MapPlace;
use crate::error::Error;
use crate::ir::{AluOp, Bits, Condition, Vreg, Width, helper};
use kestrel_trace::aggregate::ValueKind;
use kestrel_trace::aggregate::aggregation::AsNumber;

/// Processors that are asked at most; the first that is not there ends the loop.
const CPUS: i64 = 1024;

impl Lower<'_> {
    /// The number that the function gives for what was gathered so far.
    pub(super) fn gathering(&mut self, place: &MapPlace) -> Result<Vreg, Error> {
        let ValueKind::Gathered(gathered) = &place.map.value else {
            return Err(Error::Malformed {
                what: "what is gathered of a map that gathers nothing",
                span: self.b.span(),
            });
        };
        let Some(number) = gathered.function.as_number() else {
            return Err(Error::Malformed {
                what: "a number of what is gathered that is none",
                span: self.b.span(),
            });
        };
        let signed = gathered.signed;
        let key = self.map_key(place)?;
        let (sum, count, cpu) = (self.b.vreg(), self.b.vreg(), self.b.vreg());
        for register in [sum, count, cpu] {
            self.b.assign(register, 0);
        }
        // Each CPU has its own value and a program sees no sum of them: the loop asks for one CPU after the other until there is none.
        let (head, there, next, end) = (self.b.block(), self.b.block(), self.b.block(), self.b.block());
        self.b.jump(head);
        self.b.switch_to(head);
        let map = self.map_pointer(&place.map);
        let found = self.b.helper(
            helper::MAP_LOOKUP_PERCPU_ELEM,
            &[map.into(), key.into(), cpu.into()],
        );
        self.b.branch(Condition::Equal, found, 0, end, there);
        self.b.switch_to(there);
        let first = self.b.load(Width::B8, found, 0);
        match number {
            AsNumber::Extreme { .. } => {
                let larger = self.b.block();
                self.b.branch(Condition::Greater, first, sum, larger, next);
                self.b.switch_to(larger);
                self.b.assign(sum, first);
                self.b.jump(next);
            }
            AsNumber::Mean => {
                let second = self.b.load(Width::B8, found, 8);
                let (counts, sums) = (self.b.add(count, first), self.b.add(sum, second));
                self.b.assign(count, counts);
                self.b.assign(sum, sums);
                self.b.jump(next);
            }
            AsNumber::Sum { .. } => {
                let sums = self.b.add(sum, first);
                self.b.assign(sum, sums);
                self.b.jump(next);
            }
        }
        self.b.switch_to(next);
        let following = self.b.add(cpu, 1);
        self.b.assign(cpu, following);
        self.b.branch(Condition::Less, cpu, CPUS, head, end);
        self.b.switch_to(end);
        Ok(match number {
            AsNumber::Extreme { least } => {
                let number = match least {
                    true => self.b.alu(AluOp::Xor, Bits::B64, sum, -1),
                    false => sum,
                };
                let number = self.rank(number, signed);
                match least || signed {
                    true => self.unless_zero(sum, number),
                    false => number,
                }
            }
            AsNumber::Mean if signed => self.signed_division(AluOp::Div, sum, count.into()),
            AsNumber::Mean => self.b.alu(AluOp::Div, Bits::B64, sum, count),
            AsNumber::Sum { .. } => sum,
        })
    }

    /// `number`, or 0 where `rank` is 0: the rank of nothing. Without a branch: one whose way is known has the verifier tell apart each rank that the loop before it may end with.
    fn unless_zero(&mut self, rank: Vreg, number: Vreg) -> Vreg {
        let negative = self.b.mul(rank, -1);
        let either = self.b.alu(AluOp::Or, Bits::B64, rank, negative);
        let all = self.b.alu(AluOp::ShiftRightSigned, Bits::B64, either, 63);
        self.b.alu(AluOp::And, Bits::B64, number, all)
    }
}
