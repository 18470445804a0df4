//! Which bucket of a histogram a number falls into, as code: comparisons and shifts, no helper.

use super::Lower;
use crate::ir::{Condition, Operand, Vreg};
use kestrel_trace::aggregate::Buckets;

impl Lower<'_> {
    /// The bucket's index: what [`Buckets::index`] gives.
    pub(super) fn bucket(&mut self, buckets: Buckets, value: Vreg) -> Vreg {
        let index = self.b.vreg();
        let end = self.b.block();
        match buckets {
            Buckets::Powers { bits } => {
                self.below(value, 0, index, 0, end);
                let (small, large) = (self.b.block(), self.b.block());
                self.b.branch(Condition::Less, value, 1 << bits, small, large);
                self.b.switch_to(small);
                let plain = self.b.add(value, 1);
                self.b.assign(index, plain);
                self.b.jump(end);
                self.b.switch_to(large);
                let power = self.power(value, bits);
                self.b.assign(index, power);
            }
            Buckets::Linear { min, max, step } => {
                self.below(value, min, index, 0, end);
                let (above, inside) = (self.b.block(), self.b.block());
                self.b
                    .branch(Condition::SignedGreaterEqual, value, max, above, inside);
                self.b.switch_to(above);
                self.b.assign(index, i64::from(buckets.count()) - 1);
                self.b.jump(end);
                self.b.switch_to(inside);
                let distance = self.b.sub(value, min);
                let steps = self
                    .b
                    .alu(crate::ir::AluOp::Div, crate::ir::Bits::B64, distance, step);
                let place = self.b.add(steps, 1);
                self.b.assign(index, place);
            }
        }
        self.b.jump(end);
        self.b.switch_to(end);
        index
    }

    /// Sets `index` and goes to `end` where the value is below `border`.
    fn below(&mut self, value: Vreg, border: i64, index: Vreg, place: i64, end: crate::ir::BlockId) {
        let (yes, no) = (self.b.block(), self.b.block());
        self.b.branch(Condition::SignedLess, value, border, yes, no);
        self.b.switch_to(yes);
        self.b.assign(index, place);
        self.b.jump(end);
        self.b.switch_to(no);
    }

    /// The bucket of a value of at least `2^bits`: its logarithm is found by halving the 64 bits, then the `bits` bits below its highest
    /// one say which part of that power it is. Without branches: the verifier would follow each of the 64 ways through them to the program's end.
    fn power(&mut self, value: Vreg, bits: u8) -> Vreg {
        let mut rest = value;
        let mut log = None;
        for place in [5i64, 4, 3, 2, 1] {
            let step = 1i64 << place;
            let upper = self.b.shift_right(rest, step);
            // Less than nothing, and so with the highest bit, unless all of them are 0: the step, or 0.
            let zero = self.b.constant(0);
            let below = self.b.sub(zero, upper);
            let sign = self.b.shift_right(below, 63 - place);
            let taken = self.b.and(sign, step);
            rest = self.b.shift_right(rest, Operand::Reg(taken));
            log = Some(log.map_or(taken, |log| self.b.or(log, taken)));
        }
        let last = self.b.shift_right(rest, 1);
        let log = log.map_or(last, |log| self.b.or(log, last));
        if bits == 0 {
            return self.b.add(log, 2);
        }
        let up = self.b.sub(log, i64::from(bits));
        let group = self.b.add(up, 1);
        let group = self.b.shift_left(group, i64::from(bits));
        let part = self.b.shift_right(value, Operand::Reg(up));
        let part = self.b.and(part, (1 << bits) - 1);
        let sum = self.b.add(group, part);
        self.b.add(sum, 1)
    }
}
