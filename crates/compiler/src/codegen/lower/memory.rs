//! Code that reads memory of any content (`buf()`), as much of it as is mapped.

use super::Lower;
use crate::check::tree::{Access, Expr, ExprKind};
use crate::error::Error;
use crate::ir::{AluOp, Bits, Condition, Slot, Vreg, Width, helper};
use kestrel_trace::layout::Space;

/// Bytes of a page: a page may be readable where the next one is not.
const PAGE: i64 = 4096;

impl Lower<'_> {
    /// Reads memory into a frame object; gives it and how many bytes were read, or an error. Where the whole cannot be read, the part up to the
    /// end of the page is.
    pub(super) fn read_memory(&mut self, memory: &Expr, max: u32) -> Result<(Slot, Vreg), Error> {
        let ExprKind::ReadMemory {
            address,
            space,
            length,
            ..
        } = &memory.kind
        else {
            return Err(Error::Malformed {
                what: "no memory where some is to be read",
                span: memory.span,
            });
        };
        let bound = (max + 1).next_power_of_two() - 1;
        let slot = self.b.slot(bound + 1, 8);
        // The program's own memory is always there, and the verifier lets no program compute with its address.
        let own = matches!(address.kind, ExprKind::FrameWords(_));
        let address = self.value(address)?;
        let length = self.value(length)?;
        // Kernels before 6.3 (check_mem_size_reg in kernel/bpf/verifier.c) want to see all bytes set where a helper may write fewer.
        self.clear(slot, 0, bound + 1);
        let length = self.without_bounds(length);
        let taken = self.at_most(length, max);
        let failed = self.read_bytes(*space, slot, (taken, bound), address);
        if own {
            return Ok((slot, self.without_bounds(taken)));
        }
        let (part, join) = (self.b.cold_block(), self.b.block());
        self.b.branch(Condition::NotEqual, failed, 0, part, join);
        self.b.switch_to(part);
        if self.context.features.counted_reads {
            // So many bytes are there, or the error.
            self.b.assign(taken, failed);
            self.b.jump(join);
            self.b.switch_to(join);
            return Ok((slot, self.without_bounds(taken)));
        }
        let address_number = self.as_number(address);
        let within = self.b.and(address_number, PAGE - 1);
        let page = self.b.constant(PAGE);
        let left = self.b.alu(AluOp::Sub, Bits::B64, page, within);
        let (shorter, whole) = (self.b.cold_block(), self.b.cold_block());
        self.b.branch(Condition::Less, left, taken, shorter, whole);
        self.b.switch_to(whole);
        self.b.assign(taken, failed);
        self.b.jump(join);
        self.b.switch_to(shorter);
        let failed = self.read_bytes(*space, slot, (left, bound), address);
        self.b.assign(taken, left);
        let unread = self.b.cold_block();
        self.b.branch(Condition::NotEqual, failed, 0, unread, join);
        self.b.switch_to(unread);
        self.b.assign(taken, failed);
        self.b.jump(join);
        self.b.switch_to(join);
        Ok((slot, self.without_bounds(taken)))
    }

    /// An address as a number to the verifier, which allows no arithmetic on one of the program's own memory: the helper copies the word that it is kept in.
    fn as_number(&mut self, address: Vreg) -> Vreg {
        let (kept, copied) = (self.b.slot(8, 8), self.b.slot(8, 8));
        let (from, to) = (self.b.slot_address(kept, 0), self.b.slot_address(copied, 0));
        self.b.store(Width::B8, from, 0, address);
        self.b.store(Width::B8, to, 0, 0);
        self.b
            .helper(self.reader(Access::Kernel), &[to.into(), 8.into(), from.into()]);
        self.b.load(Width::B8, to, 0)
    }

    /// Makes the verifier forget what it knows of a number. It follows every way through a program until two ways have the same state, so each length that it
    /// knows exactly doubles the ways through the code behind it: with six of them it gives up. It does not track a number that is stored in half of a
    /// stack word (`check_stack_write_fixed_off` in kernel/bpf/verifier.c).
    fn without_bounds(&mut self, value: Vreg) -> Vreg {
        let slot = self.b.slot(8, 8);
        let place = self.b.slot_address(slot, 0);
        // A stored 0 it would recognise as a 0.
        let other = self.b.add(value, 1);
        self.b.store(Width::B4, place, 4, other);
        let loaded = self.b.load(Width::B4, place, 4);
        self.b.sub(loaded, 1)
    }

    /// A length, or `max` where it is more (or negative).
    fn at_most(&mut self, length: Vreg, max: u32) -> Vreg {
        let taken = self.b.vreg();
        self.b.assign(taken, length);
        let (long, fits) = (self.b.cold_block(), self.b.block());
        self.b.branch(Condition::Greater, taken, max, long, fits);
        self.b.switch_to(long);
        self.b.assign(taken, i64::from(max));
        self.b.jump(fits);
        self.b.switch_to(fits);
        taken
    }

    /// Reads `length` bytes; gives the helper's result. A mask repeats for the verifier the bound that a comparison has ensured.
    fn read_bytes(
        &mut self,
        space: Option<Space>,
        slot: Slot,
        (length, bound): (Vreg, u32),
        address: Vreg,
    ) -> Vreg {
        let reader = match space {
            None => helper::PROBE_READ,
            Some(Space::User) => self.reader(Access::User),
            Some(Space::Kernel) => self.reader(Access::Kernel),
        };
        let length = self.b.alu(AluOp::And, Bits::B64, length, i64::from(bound));
        let place = self.b.slot_address(slot, 0);
        self.read_by(reader, &[place.into(), length.into(), address.into()])
    }
}
