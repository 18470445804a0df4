//! Values that are no scalars, put together or copied in memory: texts, tuples, arrays, structs.

use super::Lower;
use super::text::Bytes;
use crate::check::tree::{Access, Expr, ExprKind, MapPlace, Type};
use crate::error::Error;
use crate::ir::{Slot, Vreg, Width};

/// Bytes that are worth a copy word by word; more are copied by a helper.
const WORDS: u32 = 64;

impl Lower<'_> {
    /// A variable's new value.
    pub(super) fn set_memory(&mut self, value: &Expr, slot: Slot) -> Result<(), Error> {
        let size = self.bytes_of(value);
        if !value.has_variables() {
            return self.put(value, slot, 0, size);
        }
        // What is computed from the variable itself is whole before that changes.
        let room = self.b.slot(size.max(1).next_multiple_of(8), 8);
        self.put(value, room, 0, size)?;
        let to = self.b.slot_address(slot, 0);
        self.copy_all(Bytes::of_slot(room), size, to, 0);
        Ok(())
    }

    /// Bytes that a value takes where it is kept.
    pub(super) fn bytes_of(&self, value: &Expr) -> u32 {
        match &value.ty {
            Type::Integer { size, .. } => u32::from(*size),
            Type::Bool => 1,
            Type::Pointer(_) => 8,
            Type::Text { size } => *size,
            Type::String { max } => max + 1,
            Type::Tuple(tuple) => tuple.size,
            Type::Named(named) => named.shape().0,
            _ => match &value.kind {
                ExprKind::Bytes { size, .. } => *size,
                _ => 0,
            },
        }
    }

    /// Writes a value to `size` bytes at `offset` of a frame object, zeroes where it has fewer.
    pub(super) fn put(&mut self, value: &Expr, slot: Slot, offset: u32, size: u32) -> Result<(), Error> {
        if let ExprKind::Sequence { statements, value } = &value.kind {
            self.statements(statements)?;
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
        if value.ty.is_text() {
            return self.text_into(value, slot, offset, size);
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
            self.b.helper(reader, &[to.into(), has.into(), from.into()]);
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
        self.copy_to_frame(bytes, size, slot, offset);
        Ok(())
    }

    /// Sets bytes of a frame object to zero, wherever they begin.
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

    /// Copies bytes to a frame object, wherever they begin there.
    fn copy_to_frame(&mut self, bytes: Bytes, size: u32, slot: Slot, offset: u32) {
        if size > WORDS {
            let to = self.b.slot_address(slot, offset);
            return self.copy_all(bytes, size, to, 0);
        }
        let to = self.b.slot_address(slot, 0);
        self.copy_aligned(bytes, size, to, offset);
    }

    /// A frame object with a copy of what a map holds; zeroes where it holds nothing.
    pub(super) fn map_copy(&mut self, place: &MapPlace, size: u32) -> Result<Slot, Error> {
        let room = size.max(1).next_multiple_of(8);
        let slot = self.b.slot(room, 8);
        self.clear(slot, 0, room);
        self.if_there(place, &mut |lower, element| {
            let to = lower.b.slot_address(slot, 0);
            lower.copy_all(Bytes::at(element), room, to, 0);
        })?;
        Ok(slot)
    }
}

impl crate::check::tree::TupleType {
    /// Whether some of its bytes belong to no member.
    fn has_gaps(&self) -> bool {
        let taken: u32 = self.members.iter().map(|member| member.size).sum();
        taken < self.size
    }
}

impl Expr {
    /// Whether a variable of more than a register is among what it is computed from.
    fn has_variables(&self) -> bool {
        matches!(self.kind, ExprKind::VariableAddress(_))
            || self.operands().into_iter().any(Self::has_variables)
    }
}
