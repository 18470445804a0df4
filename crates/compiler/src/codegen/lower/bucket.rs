//! Bucket of a number in a histogram, as code: comparisons and shifts, no helper.

use super::Lower;
use crate::ir::{AluOp, Bits, Builder, Condition, Operand, Vreg};
use kestrel_trace::aggregate::Buckets;

impl Lower<'_> {
    /// The bucket's index: what [`Buckets::index`] gives. A function finds it: the verifier would follow every path to it through the shifts again, as it wants
    /// to know what is added to an address.
    pub(super) fn bucket(&mut self, buckets: Buckets, value: Vreg) -> Vreg {
        let name = format!("bucket {buckets:?}");
        self.b.own(&name, |b, [value]| find(b, buckets, value));
        self.b.call(&name, &[value.into()])
    }
}

/// The body of that function.
fn find(b: &mut Builder, buckets: Buckets, value: Vreg) {
    match buckets {
        Buckets::Powers { bits } => {
            exit_below(b, value, 0);
            let (small, large) = (b.block(), b.block());
            b.branch(Condition::Less, value, 1 << bits, small, large);
            b.switch_to(small);
            let plain = b.add(value, 1);
            b.exit(plain);
            b.switch_to(large);
            let power = power(b, value, bits);
            b.exit(power);
        }
        Buckets::Linear { min, max, step } => {
            exit_below(b, value, min);
            let (above, inside) = (b.block(), b.block());
            b.branch(Condition::SignedGreaterEqual, value, max, above, inside);
            b.switch_to(above);
            b.exit(i64::from(buckets.count()) - 1);
            b.switch_to(inside);
            let distance = b.sub(value, min);
            let steps = b.alu(AluOp::Div, Bits::B64, distance, step);
            let place = b.add(steps, 1);
            b.exit(place);
        }
    }
}

/// Gives the first bucket where the value is below `border`.
fn exit_below(b: &mut Builder, value: Vreg, border: i64) {
    let (yes, no) = (b.block(), b.block());
    b.branch(Condition::SignedLess, value, border, yes, no);
    b.switch_to(yes);
    b.exit(0);
    b.switch_to(no);
}

/// The bucket of a value of at least `2^bits`: its logarithm is found by halving the 64 bits, then the `bits` bits below its highest
/// one say which part of that power it is. Without branches: the verifier would follow each of the 64 ways through them.
fn power(b: &mut Builder, value: Vreg, bits: u8) -> Vreg {
    let mut rest = value;
    let mut log = None;
    for place in [5i64, 4, 3, 2, 1] {
        let step = 1i64 << place;
        let upper = b.shift_right(rest, step);
        // Less than nothing, and so with the highest bit, unless all of them are 0: the step, or 0.
        let zero = b.constant(0);
        let below = b.sub(zero, upper);
        let sign = b.shift_right(below, 63 - place);
        let taken = b.and(sign, step);
        rest = b.shift_right(rest, Operand::Reg(taken));
        log = Some(log.map_or(taken, |log| b.or(log, taken)));
    }
    let last = b.shift_right(rest, 1);
    let log = log.map_or(last, |log| b.or(log, last));
    if bits == 0 {
        return b.add(log, 2);
    }
    let up = b.sub(log, i64::from(bits));
    let group = b.add(up, 1);
    let group = b.shift_left(group, i64::from(bits));
    let part = b.shift_right(value, Operand::Reg(up));
    let part = b.and(part, (1 << bits) - 1);
    let sum = b.add(group, part);
    b.add(sum, 1)
}
