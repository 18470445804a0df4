//! The copy of a process's stack: its registers, and behind them its memory from the stack pointer upwards, as far as it is there.

use super::Lower;
use super::record::Staged;
use crate::check::tree::Access;
use crate::error::Error;
use crate::ir::{AluOp, Bits, Condition, Width, helper};
use kestrel_bpf::code::SourceRange as Span;
use kestrel_trace::layout::COPIED_REGISTERS;

/// Bytes of a piece of the stack that is there or not, where the whole is not.
const PIECE: u32 = 256;

impl Lower<'_> {
    /// Takes a copy of the stack. All of it is read at once; where that fails, because the stack ends before or a page is not in memory, piece by
    /// piece up to the first that cannot be read.
    pub(super) fn stage_stack_copy(&mut self, max: u32, span: Span) -> Result<Staged, Error> {
        let Some(at) = self.context.features.user_registers else {
            return Err(Error::Malformed {
                what: "a copy of a stack where the process's registers are not known",
                span,
            });
        };
        let head = COPIED_REGISTERS * 8;
        let slot = self.b.slot(head + max, 8);
        let task = self.b.helper(helper::GET_CURRENT_TASK_BTF, &[]);
        let registers = self.b.helper(helper::TASK_PT_REGS, &[task.into()]);
        let to = self.b.slot_address(slot, 0);
        let sp = self.b.load(Width::B8, registers, at.sp as i16);
        for (place, offset) in [(0, at.ip), (16, at.bp)] {
            let value = self.b.load(Width::B8, registers, offset as i16);
            self.b.store(Width::B8, to, place, value);
        }
        self.b.store(Width::B8, to, 8, sp);
        let reader = self.reader(Access::User);
        let length = self.b.vreg();
        let (pieces, join) = (self.b.cold_block(), self.b.block());
        let to = self.b.slot_address(slot, head);
        let failed = self.b.helper(reader, &[to.into(), max.into(), sp.into()]);
        self.b.assign(length, i64::from(head + max));
        self.b.branch(Condition::Equal, failed, 0, join, pieces);
        self.b.switch_to(pieces);
        // A thread of the kernel has no such memory.
        self.b.assign(length, 0);
        let mut done = 0;
        while done < max {
            let size = PIECE.min(max - done);
            let to = self.b.slot_address(slot, head + done);
            let from = self.b.add(sp, i64::from(done));
            let failed = self.b.helper(reader, &[to.into(), size.into(), from.into()]);
            let next = self.b.block();
            self.b.branch(Condition::Equal, failed, 0, next, join);
            self.b.switch_to(next);
            done += size;
            self.b.assign(length, i64::from(head + done));
        }
        self.b.jump(join);
        self.b.switch_to(join);
        // Says to the verifier, where the number lies in memory, what it is at most.
        let bound = (head + max + 1).next_power_of_two() - 1;
        let length = self.b.alu(AluOp::And, Bits::B64, length, i64::from(bound) & !7);
        Ok(Staged { slot, length, bound })
    }
}
