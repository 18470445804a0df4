//! Bytes in memory: bringing them where plain loads reach them, comparing strings, copying into a record.

use super::Lower;
use super::string::string_room;
use crate::check::tree::{Access, Expr, ExprKind, Type};
use crate::check::value::room;
use crate::error::Error;
use crate::ir::{BlockId, Condition, Slot, Vreg, Width, helper};
use kestrel_trace::value::FAULT_IN_STRING;

/// Bytes of a thread's name.
const COMM: u32 = 16;
/// Bytes from which one call is less work than stores of zeroes.
const CLEARED_BY_HELPER: u32 = 256;

/// Bytes that plain loads reach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    at: At,
    offset: i32,
    /// Alignment of the accesses' offsets, up to their own size.
    aligned: bool,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Pointer(Vreg),
    Slot(Slot),
}

impl Bytes {
    /// A whole frame object.
    pub(super) fn of_slot(slot: Slot) -> Self {
        Self {
            at: At::Slot(slot),
            offset: 0,
            aligned: false,
        }
    }

    /// Value at an address of a map's value.
    pub(super) fn at(address: Vreg) -> Self {
        Self {
            at: At::Pointer(address),
            offset: 0,
            aligned: true,
        }
    }

    /// Cuts `size` bytes into accesses: offset within the bytes, and width.
    fn cut(self, size: u32) -> Vec<(i32, Width)> {
        cut(size, |at, width| {
            !self.aligned || is_multiple(self.offset + at, width)
        })
    }

    /// Cuts `size` bytes into accesses that are aligned here and where they are copied to, `to` of a frame object.
    fn cut_for_frame(self, size: u32, to: u32) -> Vec<(i32, Width)> {
        let free = matches!(self.at, At::Pointer(_)) && !self.aligned;
        cut(size, |at, width| {
            is_multiple(to.cast_signed() + at, width) && (free || is_multiple(self.offset + at, width))
        })
    }
}

fn is_multiple(offset: i32, width: Width) -> bool {
    offset % width.bytes().cast_signed() == 0
}

/// Cuts `size` bytes into the widest accesses that may be, by their offset and width.
fn cut(size: u32, may: impl Fn(i32, Width) -> bool) -> Vec<(i32, Width)> {
    let mut cuts = Vec::new();
    let mut at = 0u32;
    while at < size {
        let fits = |w: &Width| w.bytes() <= size - at && may(at.cast_signed(), *w);
        let width = [Width::B8, Width::B4, Width::B2]
            .into_iter()
            .find(fits)
            .unwrap_or(Width::B1);
        cuts.push((at.cast_signed(), width));
        at += width.bytes();
    }
    cuts
}

impl Lower<'_> {
    /// Brings bytes within reach. A string is read up to `limit` bytes and its NUL (at most its own `max`).
    pub(super) fn stage(&mut self, expr: &Expr, limit: u32) -> Result<Bytes, Error> {
        match &expr.kind {
            ExprKind::Bytes {
                address,
                offset,
                size,
                access,
            } => {
                let address = self.value(address)?;
                match access {
                    Access::Context | Access::Direct => Ok(Bytes {
                        at: At::Pointer(address),
                        offset: *offset,
                        // Programs on classic tracepoints may read their entry only so.
                        aligned: *access == Access::Context,
                    }),
                    Access::Kernel | Access::User => {
                        let size = *size;
                        let slot = self.b.slot(size, 8);
                        self.probe_read(*access, slot, size, address, *offset);
                        Ok(Bytes::of_slot(slot))
                    }
                }
            }
            ExprKind::Comm => {
                let slot = self.b.slot(16, 8);
                let place = self.b.slot_address(slot, 0);
                self.b
                    .helper(helper::GET_CURRENT_COMM, &[place.into(), 16.into()]);
                Ok(Bytes::of_slot(slot))
            }
            ExprKind::ReadString { max, .. } => {
                let max = (*max).min(limit);
                let size = marked(string_room(expr, max));
                let slot = self.b.slot(size, 8);
                // Comparing by words looks past the string's NUL: at zeros, not at what was left on the stack.
                self.clear(slot, 0, size);
                let result = self.read_string(slot, expr, max)?;
                self.mark_fault(result, slot);
                Ok(Bytes::of_slot(slot))
            }
            ExprKind::MapValue(place) => self.map_string(place),
            ExprKind::ConstantBytes(_) if !expr.ty.is_string() => {
                let size = self.bytes_of(expr);
                let slot = self.b.slot(size.max(1).next_multiple_of(8), 8);
                self.put(expr, slot, 0, size)?;
                Ok(Bytes::of_slot(slot))
            }
            ExprKind::ConstantBytes(known) => {
                let size = limit.min(known.len() as u32 + 1).max(1);
                let slot = self.b.slot(size.next_multiple_of(8), 8);
                let to = self.b.slot_address(slot, 0);
                self.store_string(known, size.next_multiple_of(8), to, 0);
                Ok(Bytes::of_slot(slot))
            }
            ExprKind::Tuple(_)
            | ExprKind::ReadMemory { .. }
            | ExprKind::Stack { .. }
            | ExprKind::Unwound { .. } => {
                let size = self.bytes_of(expr);
                let slot = self.b.slot(size.max(1).next_multiple_of(8), 8);
                self.put(expr, slot, 0, size)?;
                Ok(Bytes::of_slot(slot))
            }
            ExprKind::Sequence { statements, value } => {
                self.before_value(statements)?;
                self.stage(value, limit)
            }
            ExprKind::Ternary {
                condition,
                then: Some(then),
                otherwise,
            } => {
                let Type::CharArray { size } = expr.ty else {
                    let size = self.bytes_of(expr);
                    let slot = self.b.slot(size.max(1).next_multiple_of(8), 8);
                    self.put(expr, slot, 0, size)?;
                    return Ok(Bytes::of_slot(slot));
                };
                let slot = self.b.slot(size, 8);
                self.choose_string(condition, [then, otherwise], slot, size)?;
                Ok(Bytes::of_slot(slot))
            }
            _ => Err(Error::Malformed {
                what: "a number where bytes are wanted",
                span: expr.span,
            }),
        }
    }

    /// Brings the one or the other text into a frame object of `size` bytes, zeros behind it.
    fn choose_string(
        &mut self,
        condition: &Expr,
        [then, otherwise]: [&Expr; 2],
        slot: Slot,
        size: u32,
    ) -> Result<(), Error> {
        self.either(condition, [then, otherwise], |lower, arm| match &arm.kind {
            ExprKind::Ternary {
                condition,
                then: Some(then),
                otherwise,
            } => lower.choose_string(condition, [then, otherwise], slot, size),
            ExprKind::ReadString {
                length: None, max, ..
            } => {
                lower.clear(slot, 0, size);
                let result = lower.read_string(slot, arm, (*max).min(size - 1))?;
                lower.mark_fault(result, slot);
                Ok(())
            }
            _ => lower.string_into(arm, slot, 0, size),
        })
    }

    /// A string in `size` bytes at `offset` of a frame object: zeros from its NUL on, so that equal strings are equal bytes.
    pub(super) fn string_into(
        &mut self,
        text: &Expr,
        slot: Slot,
        offset: u32,
        size: u32,
    ) -> Result<(), Error> {
        let (bytes, has) = match &text.kind {
            ExprKind::Sequence { statements, value } => {
                self.before_value(statements)?;
                return self.string_into(value, slot, offset, size);
            }
            ExprKind::ConstantBytes(known) => {
                let end = known.iter().position(|b| *b == 0).unwrap_or(known.len());
                self.store_known(&known[..end], size, slot, offset);
                return Ok(());
            }
            // Bytes behind the NUL of a text in memory may be anything.
            ExprKind::Bytes {
                address,
                offset: at,
                size: length,
                access,
            } => {
                let max = (*length).min(size);
                let address = self.value(address)?;
                let address = self.b.add(address, *at);
                let taken = marked(max + 1);
                let room = self.b.slot(taken, 8);
                self.clear(room, 0, taken);
                let to = self.b.slot_address(room, 0);
                let helper = match (self.context.features.probe_read_kernel, access) {
                    (false, _) => helper::PROBE_READ_STR,
                    (true, Access::User) => helper::PROBE_READ_USER_STR,
                    (true, _) => helper::PROBE_READ_KERNEL_STR,
                };
                let result = self.read_by(helper, &[to.into(), (max + 1).into(), address.into()]);
                // The context is always there.
                if *access != Access::Context {
                    self.mark_fault(result, room);
                }
                (Bytes::of_slot(room), marked(max))
            }
            ExprKind::ReadString { max, .. } => (self.stage(text, size)?, marked((*max).min(size))),
            ExprKind::MapValue(place) => (self.stage(text, size)?, place.map.value.size()),
            ExprKind::Ternary { .. } => (self.stage(text, size)?, room(text)),
            // Some kernels leave what follows its NUL as it was.
            ExprKind::Comm => {
                let room = self.b.slot(COMM, 8);
                self.clear(room, 0, COMM);
                let to = self.b.slot_address(room, 0);
                self.b.helper(helper::GET_CURRENT_COMM, &[to.into(), COMM.into()]);
                (Bytes::of_slot(room), COMM)
            }
            _ => {
                return Err(Error::Malformed {
                    what: "a number where a string is wanted",
                    span: text.span,
                });
            }
        };
        let has = has.min(size);
        self.copy_to_frame(bytes, has, slot, offset);
        self.clear(slot, offset + has, offset + size);
        Ok(())
    }

    /// Sets bytes `from` to `until` of a frame object to zero, in aligned words: the verifier takes no others on the stack.
    pub(super) fn clear(&mut self, slot: Slot, from: u32, until: u32) {
        if until.saturating_sub(from) > CLEARED_BY_HELPER && self.context.features.probe_read_kernel {
            // A read that fails leaves zeroes; the verifier would look at a store for each word.
            let to = self.b.slot_address(slot, from);
            let size = i64::from(until - from);
            self.b
                .helper(helper::PROBE_READ_KERNEL, &[to.into(), size.into(), 0_u32.into()]);
            return;
        }
        let bytes = Bytes {
            at: At::Slot(slot),
            offset: from.cast_signed(),
            aligned: true,
        };
        let to = self.b.slot_address(slot, 0);
        for (within, width) in bytes.cut(until - from) {
            let (to, offset) = self.near(to, bytes.offset + within);
            self.b.store(width, to, offset, 0);
        }
    }

    /// Marks the string in a frame object as one that could not be read, where `result`, the reader's answer, says so.
    fn mark_fault(&mut self, result: Vreg, slot: Slot) {
        let (failed, join) = (self.b.cold_block(), self.b.block());
        self.b.branch(Condition::SignedLess, result, 0, failed, join);
        self.b.switch_to(failed);
        let to = self.b.slot_address(slot, 0);
        self.b
            .store(Width::B8, to, 0, i64::from_le_bytes(FAULT_IN_STRING));
        self.b.jump(join);
        self.b.switch_to(join);
    }

    /// Goes to `different` where a string could not be read: such a string equals none.
    pub(super) fn unless_fault(&mut self, text: &Expr, bytes: Bytes, different: BlockId) {
        if can_fault(text) {
            let word = self.load_bytes(bytes, 0, Width::B8);
            let mark = self.b.constant(i64::from_le_bytes(FAULT_IN_STRING));
            self.b.branch_if(Condition::Equal, word, mark, different);
        }
    }

    /// Address of the bytes.
    pub(super) fn address(&mut self, bytes: Bytes) -> Vreg {
        match bytes.at {
            At::Pointer(base) if bytes.offset == 0 => base,
            At::Pointer(base) => self.b.add(base, bytes.offset),
            At::Slot(slot) => self.b.slot_address(slot, bytes.offset.cast_unsigned()),
        }
    }

    /// Loads `width` bytes at `within`.
    pub(super) fn load_bytes(&mut self, bytes: Bytes, within: i32, width: Width) -> Vreg {
        let offset = bytes.offset + within;
        match bytes.at {
            At::Pointer(base) => {
                let (base, offset) = self.near(base, offset);
                self.b.load(width, base, offset)
            }
            At::Slot(slot) => {
                let place = self.b.slot_address(slot, offset.cast_unsigned());
                self.b.load(width, place, 0)
            }
        }
    }

    /// Copies `size` bytes to `to + offset`, word by word.
    pub(super) fn copy(&mut self, bytes: Bytes, size: u32, to: Vreg, offset: u32) {
        for (within, width) in bytes.cut(size) {
            let word = self.load_bytes(bytes, within, width);
            let (to, offset) = self.near(to, offset.cast_signed() + within);
            self.b.store(width, to, offset, word);
        }
    }

    /// Copies `size` bytes to `offset` of the frame object that `to` is the address of.
    pub(super) fn copy_aligned(&mut self, bytes: Bytes, size: u32, to: Vreg, offset: u32) {
        for (within, width) in bytes.cut_for_frame(size, offset) {
            let word = self.load_bytes(bytes, within, width);
            let (to, offset) = self.near(to, offset.cast_signed() + within);
            self.b.store(width, to, offset, word);
        }
    }

    /// Stores known bytes at `offset` of a frame object, zeroes behind them.
    pub(super) fn store_known(&mut self, known: &[u8], size: u32, slot: Slot, offset: u32) {
        let to = self.b.slot_address(slot, 0);
        for (within, width) in cut(size, |at, width| is_multiple(offset.cast_signed() + at, width)) {
            let word = word_of(known, within, width);
            let (to, offset) = self.near(to, offset.cast_signed() + within);
            self.b.store(width, to, offset, word);
        }
    }

    /// Stores known bytes at `to + offset`, word by word.
    pub(super) fn store_string(&mut self, text: &[u8], size: u32, to: Vreg, offset: u32) {
        let unaligned = Bytes {
            at: At::Pointer(to),
            offset: 0,
            aligned: false,
        };
        for (within, width) in unaligned.cut(size) {
            let (to, offset) = self.near(to, offset.cast_signed() + within);
            self.b.store(width, to, offset, word_of(text, within, width));
        }
    }

    /// Ends the current block: goes to `equal` where both strings are equal up to their NUL.
    pub(super) fn string_equal(
        &mut self,
        left: &Expr,
        right: &Expr,
        bytes: u32,
        equal: BlockId,
        different: BlockId,
    ) -> Result<(), Error> {
        let (left_text, left) = (left, self.stage(left, bytes)?);
        if let ExprKind::ConstantBytes(text) = &right.kind {
            // The mark of what could not be read begins with a NUL, so only the empty text is like it.
            if text.first().is_none_or(|byte| *byte == 0) {
                self.unless_fault(left_text, left, different);
            }
            for (within, width) in left.cut(bytes) {
                let word = self.load_bytes(left, within, width);
                self.b
                    .branch_if(Condition::NotEqual, word, word_of(text, within, width), different);
            }
        } else {
            let (right_text, right) = (right, self.stage(right, bytes)?);
            self.unless_fault(left_text, left, different);
            self.unless_fault(right_text, right, different);
            for within in 0..bytes.cast_signed() {
                let l = self.load_bytes(left, within, Width::B1);
                let r = self.load_bytes(right, within, Width::B1);
                self.b.branch_if(Condition::NotEqual, l, r, different);
                self.b.branch_if(Condition::Equal, l, 0, equal);
            }
        }
        self.b.jump(equal);
        Ok(())
    }
}

/// Bytes of a frame object for a string of so many that may turn out to be the mark of one that could not be read.
fn marked(size: u32) -> u32 {
    size.max(FAULT_IN_STRING.len() as u32)
}

/// Whether what [`Lower::stage`] brings may be the mark of a string that could not be read.
fn can_fault(text: &Expr) -> bool {
    matches!(
        text.kind,
        ExprKind::ReadString { .. } | ExprKind::MapValue(_) | ExprKind::Ternary { .. }
    )
}

/// The number that a load of these bytes gives; bytes past the end are 0.
fn word_of(text: &[u8], within: i32, width: Width) -> i64 {
    let from = within.cast_unsigned() as usize;
    let mut word = [0; 8];
    let bytes = text.iter().skip(from).take(width.bytes() as usize);
    word.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    i64::from_le_bytes(word)
}
