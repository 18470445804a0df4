//! Strings: read up to their NUL, or to the end of as many bytes as there are.

use super::Lower;
use crate::check::tree::{Access, Expr, ExprKind};
use crate::error::Error;
use crate::ir::{AluOp, Bits, Condition, Helper, Slot, Vreg, helper};
use kestrel_trace::layout::Space;

/// The upper bound of the length of a string of at most `max` bytes, as the verifier derives it from a mask: all bits set.
fn string_bound(max: u32) -> u32 {
    (max + 1).next_power_of_two() - 1
}

/// Bytes of a frame object into which a string of at most `max` bytes is read, its NUL among them.
pub(super) fn string_room(text: &Expr, max: u32) -> u32 {
    match text.kind {
        ExprKind::ReadString { length: Some(_), .. } => string_bound(max) + 1,
        _ => max + 1,
    }
}

impl Lower<'_> {
    /// Reads a string into a frame object of [`string_room`] bytes; gives what the helper returned: its length with the NUL, or an error.
    pub(super) fn read_string(&mut self, slot: Slot, text: &Expr, max: u32) -> Result<Vreg, Error> {
        let ExprKind::ReadString {
            address,
            space,
            length,
            ..
        } = &text.kind
        else {
            return Err(Error::Malformed {
                what: "no string where one is to be read",
                span: text.span,
            });
        };
        let address = self.value(address)?;
        if let Some(length) = length {
            let length = self.value(length)?;
            return Ok(self.read_sized(slot, address, *space, max, length));
        }
        let place = self.b.slot_address(slot, 0);
        let helper = self.string_reader(*space);
        let args = [place.into(), (max + 1).into(), address.into()];
        Ok(self.read_by(helper, &args))
    }

    /// Reads a string of which there are `length` bytes and no more. Helpers for strings look for the NUL one byte further, which may be in
    /// a page that is not there; so the bytes are read first, and the string in them after.
    fn read_sized(
        &mut self,
        slot: Slot,
        address: Vreg,
        space: Option<Space>,
        max: u32,
        length: Vreg,
    ) -> Vreg {
        let bound = string_bound(max);
        let bytes = self.b.slot(bound + 1, 8);
        // Kernels before 6.3 (check_mem_size_reg in kernel/bpf/verifier.c) want to see all bytes set where a helper may write fewer.
        self.clear(bytes, 0, bound + 1);
        self.clear(slot, 0, bound + 1);
        let taken = self.b.vreg();
        self.b.assign(taken, length);
        let (long, fits) = (self.b.block(), self.b.block());
        self.b.branch(Condition::Greater, taken, max, long, fits);
        self.b.switch_to(long);
        self.b.assign(taken, i64::from(max));
        self.b.jump(fits);
        self.b.switch_to(fits);
        // As in `bounded`: the mask is for the verifier.
        let taken = self.b.alu(AluOp::And, Bits::B64, taken, i64::from(bound));
        let result = self.b.vreg();
        self.b.assign(result, 1);
        let (some, whole, short, join) = (self.b.block(), self.b.block(), self.b.block(), self.b.block());
        // Of no bytes it does not matter where they are.
        self.b.branch(Condition::Equal, taken, 0, join, some);
        self.b.switch_to(some);
        let reader = match space {
            None => helper::PROBE_READ,
            Some(Space::User) => self.reader(Access::User),
            Some(Space::Kernel) => self.reader(Access::Kernel),
        };
        let place = self.b.slot_address(bytes, 0);
        let read = self.read_by(reader, &[place.into(), taken.into(), address.into()]);
        self.b.assign(result, read);
        let is_read = match self.context.features.counted_reads {
            true => Condition::SignedGreaterEqual,
            false => Condition::Equal,
        };
        self.b.branch(is_read, result, 0, whole, short);
        // A string may end before memory does that is not there.
        self.b.switch_to(short);
        let (to, size) = (self.b.slot_address(slot, 0), self.b.add(taken, 1));
        let reader = self.string_reader(space);
        let found = self.read_by(reader, &[to.into(), size.into(), address.into()]);
        self.b.assign(result, found);
        self.b.jump(join);
        self.b.switch_to(whole);
        let (to, from) = (self.b.slot_address(slot, 0), self.b.slot_address(bytes, 0));
        let size = self.b.add(taken, 1);
        let reader = self.string_reader(Some(Space::Kernel));
        let found = self.b.helper(reader, &[to.into(), size.into(), from.into()]);
        self.b.assign(result, found);
        self.b.jump(join);
        self.b.switch_to(join);
        result
    }

    /// The helper that reads strings in this memory.
    fn string_reader(&self, space: Option<Space>) -> Helper {
        match (self.context.features.probe_read_kernel, space) {
            (false, _) | (true, None) => helper::PROBE_READ_STR,
            (true, Some(Space::User)) => helper::PROBE_READ_USER_STR,
            (true, Some(Space::Kernel)) => helper::PROBE_READ_KERNEL_STR,
        }
    }
}
