//! Looking for known bytes in a string: a loop over the places where they may begin.

use super::Lower;
use super::bytes::Bytes;
use crate::check::tree::Expr;
use crate::error::Error;
use crate::ir::{BlockId, Condition, Vreg, Width};

impl Lower<'_> {
    /// Ends the current block: goes to `yes` where the string begins with the other up to its NUL.
    pub(super) fn string_begins(
        &mut self,
        text: &Expr,
        with: &Expr,
        bytes: u32,
        (yes, no): (BlockId, BlockId),
    ) -> Result<(), Error> {
        let (text, with) = (self.stage(text, bytes)?, self.stage(with, bytes)?);
        for within in 0..bytes.cast_signed() {
            let wanted = self.load_bytes(with, within, Width::B1);
            self.b.branch_if(Condition::Equal, wanted, 0, yes);
            let there = self.load_bytes(text, within, Width::B1);
            self.b.branch_if(Condition::NotEqual, there, wanted, no);
        }
        self.b.jump(yes);
        Ok(())
    }

    /// The difference of the first bytes in which two values differ, or 0.
    pub(super) fn bytes_order(&mut self, left: &Expr, right: &Expr, bytes: u32) -> Result<Vreg, Error> {
        let (left, right) = (self.stage(left, bytes)?, self.stage(right, bytes)?);
        let (result, end) = (self.b.vreg(), self.b.block());
        for within in 0..bytes.cast_signed() {
            let l = self.load_bytes(left, within, Width::B1);
            let r = self.load_bytes(right, within, Width::B1);
            let difference = self.b.sub(l, r);
            self.b.assign(result, difference);
            self.b.branch_if(Condition::NotEqual, difference, 0, end);
        }
        self.b.assign(result, 0);
        self.b.jump(end);
        self.b.switch_to(end);
        Ok(result)
    }

    /// Where the bytes begin first, or -1; with `prefix` only the first place counts.
    pub(super) fn string_find(
        &mut self,
        text: &Expr,
        needle: &[u8],
        bytes: u32,
        prefix: bool,
    ) -> Result<Vreg, Error> {
        let found = self.b.vreg();
        self.b.assign(found, -1);
        let room = bytes.max(1).next_multiple_of(8);
        let slot = self.b.slot(room, 8);
        self.put(text, slot, 0, bytes.max(1))?;
        // The last place is known here, so that the verifier sees the loop end.
        let last = i64::from(bytes) - needle.len() as i64;
        if last < 0 {
            return Ok(found);
        }
        let base = self.address(Bytes::of_slot(slot));
        let at = self.b.vreg();
        self.b.assign(at, 0);
        let (head, next, end) = (self.b.block(), self.b.block(), self.b.block());
        self.b.jump(head);
        self.b.switch_to(head);
        let here = self.b.add(base, at);
        for (place, byte) in needle.iter().enumerate() {
            let loaded = self
                .b
                .load(Width::B1, here, i16::try_from(place).unwrap_or(i16::MAX));
            self.b
                .branch_if(Condition::NotEqual, loaded, i64::from(*byte), next);
        }
        self.b.assign(found, at);
        self.b.jump(end);
        self.b.switch_to(next);
        if prefix {
            self.b.jump(end);
        } else {
            let following = self.b.add(at, 1);
            self.b.assign(at, following);
            self.b.branch(Condition::LessEqual, at, last, head, end);
        }
        self.b.switch_to(end);
        Ok(found)
    }
}
