//! Matching a string against a pattern, byte by byte without a branch for each character: bit `n` of a word says that the bytes so far match the first
//! `n` items of the pattern.

use super::Lower;
use crate::check::tree::Expr;
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Condition, Vreg, Width};
use crate::lang::glob::{Glob, Item};

impl Lower<'_> {
    /// Ends the current block: goes to `yes` where a string matches the pattern; at most `bytes` bytes are looked at.
    pub(super) fn string_glob(
        &mut self,
        text: &Expr,
        glob: &Glob,
        bytes: u32,
        (yes, no): (BlockId, BlockId),
    ) -> Result<(), Error> {
        let staged = self.stage(text, bytes)?;
        self.unless_fault(text, staged, no);
        let ended = self.b.block();
        let places = self.b.vreg();
        self.b.assign(places, 1i64);
        for at in 0..bytes.cast_signed() {
            let byte = self.load_bytes(staged, at, Width::B1);
            self.b.branch_if(Condition::Equal, byte, 0, ended);
            let next = self.step(glob, byte, places);
            self.b.assign(places, next);
        }
        self.b.jump(ended);
        self.b.switch_to(ended);
        let end = self.b.shift_right(places, glob.items.len() as u32);
        let end = self.b.and(end, 1i64);
        self.b.branch(Condition::NotEqual, end, 0, yes, no);
        Ok(())
    }

    /// The positions in the pattern after one more byte.
    fn step(&mut self, glob: &Glob, byte: Vreg, places: Vreg) -> Vreg {
        let mut known: Vec<(&Item, u64)> = Vec::new();
        for (at, item) in glob.items.iter().enumerate() {
            match known.iter_mut().find(|(same, _)| *same == item) {
                Some((_, bits)) => *bits |= 1 << at,
                None => known.push((item, 1 << at)),
            }
        }
        let mut accepting = self.b.constant(0);
        for (item, bits) in known {
            let is = self.accepts(item, byte);
            let mask = self.b.alu(AluOp::Mul, Bits::B64, is, bits.cast_signed());
            accepting = self.b.or(accepting, mask);
        }
        let taken = self.b.and(places, accepting);
        let taken = self.b.shift_left(taken, 1i64);
        let skipped = self.b.and(places, glob.stars.cast_signed());
        self.b.or(taken, skipped)
    }

    /// 1 where an item accepts a byte, else 0.
    fn accepts(&mut self, item: &Item, byte: Vreg) -> Vreg {
        let mut is = self.b.constant(0);
        for range in &item.ranges {
            let (first, last) = (i64::from(*range.start()), i64::from(*range.end()));
            // The distance from the range's begin, around 256: less than its length exactly for what lies in it.
            let from = self.b.add(byte, -first);
            let from = self.b.and(from, 0xffi64);
            let below = self.b.add(from, -(last - first + 1).max(0));
            let inside = self.b.shift_right(below, 63i64);
            is = self.b.or(is, inside);
        }
        match item.negated {
            true => self.b.alu(AluOp::Xor, Bits::B64, is, 1i64),
            false => is,
        }
    }
}
