//! The copy of a process's stack: its registers, and behind them its memory from the stack pointer upwards, as far as it is there; what the record has no room
//! for in pieces, records of their own that come before it ([`kestrel_trace::stack_pieces`]).

use super::record::Staged;
use super::{Lower, emit_identity};
use crate::check::tree::Access;
use crate::check::tree::Destination;
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Condition, Operand, Vreg, Width, helper};
use crate::sink::Size;
use kestrel_bpf::code::SourceRange as Span;
use kestrel_trace::layout::COPIED_WORDS;
use kestrel_trace::stack_pieces::{CLASS, PIECE, PIECE_BYTES};

/// Bytes of a part of the stack that is there or not, where the whole is not.
const PART: u32 = 256;
/// Bytes of memory that are there together or not at all.
const MEMORY_PAGE: u32 = 4096;
/// Where in the staged copy the stack pointer is, and the time at which it was taken.
const SP: i16 = 8;
const TAKEN: i16 = 24;

/// The staged parts of a piece: how many bytes of the stack lie before it, its size, its bytes. All rounds of the loop are one to the verifier because the
/// numbers lie in memory: of registers it knows more each round, and would follow every round on its own path.
const DONE: i16 = 0;
const SIZE: i16 = 8;
const STAGED: u32 = 16;

impl Lower<'_> {
    /// Takes the first `max` bytes of a copy of the stack. All of it is read at once; where that fails, because the stack ends before or a page is not in memory, piece by
    /// piece up to the first that cannot be read.
    pub(super) fn stage_stack_copy(&mut self, max: u32, bytes: u32, span: Span) -> Result<Staged, Error> {
        let Some(at) = self.context.features.user_registers else {
            return Err(Error::Malformed {
                what: "a copy of a stack where the process's registers are not known",
                span,
            });
        };
        let head = COPIED_WORDS * 8;
        let slot = self.b.slot(head + max, 8);
        let task = self.b.helper(helper::GET_CURRENT_TASK_BTF, &[]);
        let registers = self.b.helper(helper::TASK_PT_REGS, &[task.into()]);
        let to = self.b.slot_address(slot, 0);
        let sp = self.b.load(Width::B8, registers, at.sp as i16);
        let ip = self.b.load(Width::B8, registers, at.ip as i16);
        self.b.store(Width::B8, to, 0, ip);
        let bp = self.b.load(Width::B8, registers, at.bp as i16);
        self.b.store(Width::B8, to, 16, bp);
        self.b.store(Width::B8, to, SP, sp);
        match bytes > max {
            true => {
                let now = self.b.helper(helper::KTIME_GET_NS, &[]);
                self.b.store(Width::B8, to, TAKEN, now);
            }
            false => self.b.store(Width::B8, to, TAKEN, 0),
        }
        let reader = self.reader(Access::User);
        let length = self.b.vreg();
        let (pieces, join) = (self.b.cold_block(), self.b.block());
        let to = self.b.slot_address(slot, head);
        let failed = self.b.helper(reader, &[to.into(), max.into(), sp.into()]);
        self.b.assign(length, i64::from(head + max));
        self.b.branch(Condition::Equal, failed, 0, join, pieces);
        self.b.switch_to(pieces);
        // A thread of the kernel has no such memory, and no instruction pointer either. A process may not have touched the page at its stack pointer yet: where it
        // is, is known without.
        self.b.assign(length, 0);
        let first = self.b.block();
        self.b.branch(Condition::Equal, ip, 0, join, first);
        self.b.switch_to(first);
        self.b.assign(length, i64::from(head));
        let mut done = 0;
        while done < max {
            let size = PART.min(max - done);
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

    /// Writes what lies behind the first `max` of so many bytes of the stack, as far as it is there: piece by piece, each within a page of memory, so
    /// that one is there as a whole or not at all. `staged` is the part that the record will hold.
    pub(super) fn stack_pieces(
        &mut self,
        staged: Staged,
        identity: Vreg,
        (max, bytes): (u32, u32),
        to: &Destination,
        span: Span,
    ) -> Result<(), Error> {
        // Messages are read one by one.
        if bytes <= max || *to == Destination::Messages {
            return Ok(());
        }
        let (head, end) = (self.b.block(), self.b.block());
        self.b
            .branch_if(Condition::Less, staged.length, COPIED_WORDS * 8 + max, end);
        let copied = self.b.slot_address(staged.slot, 0);
        let sp = self.b.load(Width::B8, copied, SP);
        let taken = self.b.load(Width::B8, copied, TAKEN);
        let slot = self.b.slot(STAGED + PIECE_BYTES.next_power_of_two(), 8);
        let numbers = self.b.slot_address(slot, 0);
        self.b.store(Width::B8, numbers, DONE, i64::from(max));
        // The verifier counts the rounds by this.
        let left = self.b.vreg();
        self.b.assign(left, most_pieces(bytes - max));
        self.b.jump(head);
        self.b.switch_to(head);
        self.b.branch_if(Condition::Equal, left, 0, end);
        let fewer = self.b.sub(left, 1);
        self.b.assign(left, fewer);
        let done = self.b.load(Width::B8, numbers, DONE);
        self.b.branch_if(Condition::GreaterEqual, done, bytes, end);
        let at = self.b.add(sp, done);
        self.piece_size(at, done, bytes, numbers);
        let size = self.b.load(Width::B8, numbers, SIZE);
        let bound = i64::from(PIECE_BYTES.next_power_of_two() - 1);
        let size = self.b.and(size, bound & !7);
        self.b.branch_if(Condition::Equal, size, 0, end);
        let place = self.b.slot_address(slot, STAGED);
        let reader = self.reader(Access::User);
        let failed = self.b.helper(reader, &[place.into(), size.into(), at.into()]);
        self.b.branch_if(Condition::NotEqual, failed, 0, end);
        let from = self.b.slot_address(slot, STAGED);
        self.piece(
            (from, size.into()),
            [at.into(), taken.into()],
            identity,
            to,
            (end, span),
        )?;
        let done = self.b.load(Width::B8, numbers, DONE);
        let size = self.b.load(Width::B8, numbers, SIZE);
        let further = self.b.add(done, size);
        self.b.store(Width::B8, numbers, DONE, further);
        self.b.jump(head);
        self.b.switch_to(end);
        Ok(())
    }

    /// Stores the size of the piece at an address: up to the end of the page of memory, and of what is wanted, in whole words.
    fn piece_size(&mut self, at: Vreg, done: Vreg, bytes: u32, numbers: Vreg) {
        let size = self.b.vreg();
        self.b.assign(size, i64::from(PIECE_BYTES));
        let within = self.b.and(at, i64::from(MEMORY_PAGE - 1));
        for (all, gone) in [(MEMORY_PAGE, within), (bytes, done)] {
            let all = self.b.constant(i64::from(all));
            let left = self.b.sub(all, gone);
            let (less, on) = (self.b.block(), self.b.block());
            self.b.branch(Condition::Less, left, size, less, on);
            self.b.switch_to(less);
            self.b.assign(size, left);
            self.b.jump(on);
            self.b.switch_to(on);
        }
        let words = self.b.and(size, -8);
        self.b.store(Width::B8, numbers, SIZE, words);
    }

    /// Writes one piece, out of so many bytes at an address; goes to `end` where there is no room for it.
    pub(super) fn piece(
        &mut self,
        (from, size): (Vreg, Operand),
        numbers: [Operand; 2],
        identity: Vreg,
        to: &Destination,
        (end, span): (BlockId, Span),
    ) -> Result<(), Error> {
        let layout = &CLASS.layout;
        let size_of_record = match size {
            Operand::Imm(size) => Size::Constant((layout.fixed_end() + size as u32).next_multiple_of(8)),
            Operand::Reg(size) => {
                let length = self.b.add(size, layout.fixed_end() + 7);
                Size::Variable {
                    value: self.b.and(length, -8),
                    max: (layout.fixed_end() + PIECE_BYTES).next_multiple_of(8),
                }
            }
        };
        let number = Operand::Imm(i64::from(PIECE.0));
        self.reserved((number, size_of_record), to, (end, span), |lower, record| {
            emit_identity(&mut lower.b, identity, record);
            let values = numbers.map(|number| (Width::B8, number)).into_iter();
            for (field, (width, value)) in layout.fields().iter().zip(values.chain([(Width::B2, size)])) {
                lower
                    .b
                    .store(width, record, field.offset().cast_signed() as i16, value);
            }
            let tail = lower.b.add(record, layout.fixed_end());
            let copy = lower.reader(Access::Kernel);
            lower.b.helper(copy, &[tail.into(), size, from.into()]);
            Ok(())
        })
    }
}

/// Most pieces of so many bytes, wherever in a page of memory they begin: each page has a number of whole ones and one that is shorter.
fn most_pieces(bytes: u32) -> i64 {
    let pages = bytes.div_ceil(MEMORY_PAGE) + 1;
    i64::from(pages * MEMORY_PAGE.div_ceil(PIECE_BYTES))
}
