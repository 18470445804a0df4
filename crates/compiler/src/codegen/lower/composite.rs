//! Code for composite values (strings, tuples, arrays, structs): they are put together and copied in memory.

use super::Lower;
use super::bytes::Bytes;
use crate::check::tree::{Access, Expr, ExprKind, MapPlace, Type};
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Condition, Operand, Slot, Vreg, Width, helper};
use kestrel_trace::layout::{FieldType, Space, StackMode};

/// `BPF_F_USER_BUILD_ID`.
const USER_BUILD_ID: i64 = 1 << 11;
/// Most bytes that are copied word by word; more are copied by a helper.
const WORDS: u32 = 64;

impl Lower<'_> {
    /// Assigns a variable that lies in the frame; zeroes fill the rest of its room.
    pub(super) fn set_memory(&mut self, value: &Expr, slot: Slot, size: u32) -> Result<(), Error> {
        if !value.has_variables() {
            return self.put(value, slot, 0, size);
        }
        // The value may be computed from the variable itself, so it is completed elsewhere before the variable changes.
        let room = self.b.slot(size.max(1).next_multiple_of(8), 8);
        self.put(value, room, 0, size)?;
        let to = self.b.slot_address(slot, 0);
        self.copy_all(Bytes::of_slot(room), size, to, 0);
        Ok(())
    }

    /// Assigns a variable that lies at an address, by way of a frame object.
    pub(super) fn set_memory_at(&mut self, value: &Expr, to: Vreg, size: u32) -> Result<(), Error> {
        let room = self.b.slot(size.max(1).next_multiple_of(8), 8);
        self.put(value, room, 0, size)?;
        self.copy_all(Bytes::of_slot(room), size, to, 0);
        Ok(())
    }

    /// Bytes that a value takes in memory.
    pub(super) fn bytes_of(&self, value: &Expr) -> u32 {
        match &value.ty {
            Type::Integer { size, .. } => u32::from(*size),
            Type::Bool => 1,
            Type::Pointer(_) => 8,
            Type::CharArray { size } => *size,
            Type::String { max } => max + 1,
            Type::Tuple(tuple) => tuple.size,
            Type::Named(named) => named.shape().0,
            Type::Buffer { max } | Type::Memory { max } => FieldType::Buffer { max: *max }.fixed_size(),
            Type::HeldStack(stack) => stack.size(),
            Type::Stack { max, mode, .. } => match mode {
                StackMode::BuildId => max * 32 + 16,
                StackMode::Bpftrace | StackMode::Perf | StackMode::Raw => max * 8 + 16,
            },
            _ => match &value.kind {
                ExprKind::Bytes { size, .. } => *size,
                _ => 0,
            },
        }
    }

    /// Writes a value to `size` bytes of a frame object from `offset` on; zeroes fill the rest.
    pub(super) fn put(&mut self, value: &Expr, slot: Slot, offset: u32, size: u32) -> Result<(), Error> {
        if let ExprKind::Sequence { statements, value } = &value.kind {
            self.before_value(statements)?;
            return self.put(value, slot, offset, size);
        }
        if value.ty.is_scalar() {
            let width = Width::from_bytes(size).ok_or(Error::Malformed {
                what: "a number for bytes that are none",
                span: value.span,
            })?;
            let value = self.operand(value)?;
            let to = self.b.slot_address(slot, offset);
            self.b.store(width, to, 0, value);
            return Ok(());
        }
        if let (Type::Tuple(ty), ExprKind::Tuple(parts)) = (&value.ty, &value.kind) {
            if ty.has_gaps() {
                self.clear(slot, offset, offset + size);
            }
            for (member, part) in ty.members.iter().zip(parts) {
                self.put(part, slot, offset + member.offset, member.size)?;
            }
            return Ok(());
        }
        if let (Type::Named(_), ExprKind::Tuple(parts)) = (&value.ty, &value.kind) {
            let mut at = offset;
            for part in parts {
                let part_size = self.bytes_of(part);
                self.put(part, slot, at, part_size)?;
                at += part_size;
            }
            self.clear_bytes(slot, at, offset + size);
            return Ok(());
        }
        if value.ty.is_string() {
            return self.string_into(value, slot, offset, size);
        }
        match &value.kind {
            ExprKind::ConstantBytes(known) => {
                self.store_known(known, size, slot, offset);
                return Ok(());
            }
            ExprKind::ReadMemory { max, .. } => {
                return self.put_memory(value, (*max).min(size.saturating_sub(4)), slot, offset, size);
            }
            ExprKind::Stack { space, max } => {
                let mode = match &value.ty {
                    Type::Stack { mode, .. } => *mode,
                    Type::HeldStack(held) => held.mode,
                    _ => StackMode::Bpftrace,
                };
                return self.put_stack((*space, *max, mode), slot, offset, size);
            }
            ExprKind::Unwound { max } => {
                return self.put_unwound(*max, (slot, offset, size), value.span);
            }
            _ => {}
        }
        if let ExprKind::Bytes {
            address,
            offset: at,
            size: has,
            access: access @ (Access::Kernel | Access::User),
        } = &value.kind
        {
            let address = self.value(address)?;
            let from = self.b.add(address, *at);
            let to = self.b.slot_address(slot, offset);
            let reader = self.reader(*access);
            let has = (*has).min(size);
            self.read_by(reader, &[to.into(), has.into(), from.into()]);
            self.clear(slot, offset + has, offset + size);
            return Ok(());
        }
        if let ExprKind::Ternary {
            condition,
            then: Some(then),
            otherwise,
        } = &value.kind
        {
            return self.either(condition, [then, otherwise], |lower, arm| {
                lower.put(arm, slot, offset, size)
            });
        }
        let bytes = self.stage(value, size)?;
        let has = self.bytes_of(value).min(size);
        if matches!(value.ty, Type::HeldStack(_)) && has < size {
            // The last word of a stack names its process: it goes to the end of the larger room.
            self.copy_to_frame(bytes, has - 8, slot, offset);
            self.clear(slot, offset + has - 8, offset + size - 8);
            let process = self.load_bytes(bytes, has.cast_signed() - 8, Width::B8);
            let to = self.b.slot_address(slot, offset + size - 8);
            self.b.store(Width::B8, to, 0, process);
            return Ok(());
        }
        self.copy_to_frame(bytes, has, slot, offset);
        self.clear_bytes(slot, offset + has, offset + size);
        Ok(())
    }

    /// Writes memory read by a program in its form for keeping: the number of bytes, the bytes, zeroes. The number is 0 where it cannot be read.
    fn put_memory(
        &mut self,
        memory: &Expr,
        max: u32,
        slot: Slot,
        offset: u32,
        size: u32,
    ) -> Result<(), Error> {
        let (from, length) = self.read_memory(memory, max)?;
        let count = self.b.vreg();
        self.b.assign(count, length);
        let (failed, join) = (self.b.cold_block(), self.b.block());
        self.b.branch(Condition::Greater, count, max, failed, join);
        self.b.switch_to(failed);
        self.b.assign(count, 0);
        self.b.jump(join);
        self.b.switch_to(join);
        let to = self.b.slot_address(slot, offset);
        self.b.store(Width::B4, to, 0, count);
        self.copy_to_frame(Bytes::of_slot(from), max, slot, offset + 4);
        self.clear_bytes(slot, offset + 4 + max, offset + size);
        Ok(())
    }

    /// Writes a stack in its form for keeping: the number of frames or the kernel's error, the frames, zeroes, the process.
    fn put_stack(
        &mut self,
        (space, max, mode): (Space, u32, StackMode),
        slot: Slot,
        offset: u32,
        size: u32,
    ) -> Result<(), Error> {
        let shift = match mode {
            StackMode::BuildId => 5,
            StackMode::Bpftrace | StackMode::Perf | StackMode::Raw => 3,
        };
        let build_id = match mode {
            StackMode::BuildId => USER_BUILD_ID,
            StackMode::Bpftrace | StackMode::Perf | StackMode::Raw => 0,
        };
        self.clear(slot, offset, offset + size);
        if max == 0 {
            return Ok(());
        }
        let flags = match self.stack_flags(space) {
            Operand::Imm(flags) => Operand::Imm(flags | build_id),
            Operand::Reg(counted) => self.b.or(counted, build_id).into(),
        };
        let (to, context) = (self.b.slot_address(slot, offset + 8), self.program_context());
        let args = [context.into(), to.into(), (max << shift).into(), flags];
        let length = self.b.helper(helper::GET_STACK, &args);
        let count = self
            .b
            .alu(AluOp::ShiftRightSigned, Bits::B64, length, i64::from(shift));
        let to = self.b.slot_address(slot, offset);
        self.b.store(Width::B8, to, 0, count);
        if space == Space::User {
            let both = self.task_numbers();
            let process = self.b.shift_right(both, 32);
            let to = self.b.slot_address(slot, offset + size - 8);
            self.b.store(Width::B8, to, 0, process);
        }
        Ok(())
    }

    /// Ends the current block with a jump: to `equal` where both values have the same bytes in memory, else to `different`.
    pub(super) fn bytes_equal(
        &mut self,
        [left, right]: [&Expr; 2],
        size: u32,
        equal: BlockId,
        different: BlockId,
    ) -> Result<(), Error> {
        let room = size.max(1).next_multiple_of(8);
        let mut slots = Vec::new();
        for side in [left, right] {
            let slot = self.b.slot(room, 8);
            self.clear(slot, size / 8 * 8, room);
            self.put(side, slot, 0, size)?;
            slots.push(Bytes::of_slot(slot));
        }
        let [left, right] = slots[..] else {
            return Ok(());
        };
        // The words are compared without branches: for the verifier each branch would double the ways through all that follows.
        let mut differs = self.b.constant(0);
        for at in (0..room.cast_signed()).step_by(8) {
            let (l, r) = (
                self.load_bytes(left, at, Width::B8),
                self.load_bytes(right, at, Width::B8),
            );
            let here = self.b.alu(AluOp::Xor, Bits::B64, l, r);
            differs = self.b.or(differs, here);
        }
        self.b.branch(Condition::Equal, differs, 0, equal, different);
        Ok(())
    }

    /// Sets a range of a frame object to zero, which may be empty.
    fn clear_bytes(&mut self, slot: Slot, from: u32, until: u32) {
        if from < until {
            self.clear(slot, from, until);
        }
    }

    /// Copies bytes: few of them word by word, many by a helper.
    pub(super) fn copy_all(&mut self, bytes: Bytes, size: u32, to: Vreg, offset: u32) {
        if size <= WORDS {
            return self.copy(bytes, size, to, offset);
        }
        let from = self.address(bytes);
        let to = self.b.add(to, offset);
        let reader = self.reader(Access::Kernel);
        self.b.helper(reader, &[to.into(), size.into(), from.into()]);
    }

    /// Copies bytes to a frame object, to any offset in it.
    pub(super) fn copy_to_frame(&mut self, bytes: Bytes, size: u32, slot: Slot, offset: u32) {
        if size > WORDS {
            let to = self.b.slot_address(slot, offset);
            return self.copy_all(bytes, size, to, 0);
        }
        let to = self.b.slot_address(slot, 0);
        self.copy_aligned(bytes, size, to, offset);
    }

    /// Copies what a map holds under a key to a new frame object; zeroes where it holds nothing.
    pub(super) fn map_copy(&mut self, place: &MapPlace, size: u32) -> Result<Slot, Error> {
        let room = size.max(1).next_multiple_of(8);
        let slot = self.b.slot(room, 8);
        self.clear(slot, 0, room);
        self.with_element(place, &mut |lower, element| {
            let to = lower.b.slot_address(slot, 0);
            lower.copy_all(Bytes::at(element), room, to, 0);
        })?;
        Ok(slot)
    }
}

impl crate::check::tree::TupleType {
    /// Whether there is padding, bytes that belong to no member.
    fn has_gaps(&self) -> bool {
        let taken: u32 = self.members.iter().map(|member| member.size).sum();
        taken < self.size
    }
}

impl Expr {
    /// Whether it is computed from a variable that is in memory and not in a register.
    fn has_variables(&self) -> bool {
        matches!(self.kind, ExprKind::VariableAddress(_))
            || self.operands().into_iter().any(Self::has_variables)
    }
}
