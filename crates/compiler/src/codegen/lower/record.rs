//! Writing one record: everything that calls helpers first, then reserve, plain stores, copies of the tail, commit.
//!
//! ```text
//!   strings, stacks, probe reads, helpers  ->  registers and staged bytes       (may be slow, may be interrupted)
//!   [preemption off]  reserve(size)        ->  record, or refused
//!   pid, tid; fixed fields; counts         ->  stores; context and arguments are read only now, so that few registers are held
//!   stacks, then strings                   ->  copied from where they were staged
//!   commit  [preemption on]
//! ```

use super::bytes::Bytes;
use super::string::string_room;
use super::value::width;
use super::{Lower, emit_identity};
use crate::check::tree::{Access, Destination, Expr, ExprKind, Intrinsic, Record};
use crate::context::EventNumber;
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Condition, Operand, Slot, Vreg, Width, helper};
use crate::sink::Size;
use kestrel_bpf::code::SourceRange as Span;
use kestrel_trace::event::is_long;
use kestrel_trace::layout::{EventName, Field, FieldType, Layout, Space};
use kestrel_trace::value::{FAULT_IN_STRING, fault_in_string};

/// Bytes that are worth a copy word by word; more are read straight into the record.
const WORDS: u32 = 64;

/// Remaining work for a field once its record is reserved.
pub(super) enum Plan<'e> {
    /// Evaluate it: it calls nothing.
    Late(&'e Expr),
    /// The value is in a register and only has to be stored.
    Ready(Operand),
    /// Copy bytes word by word.
    Copy(Bytes),
    /// Store known bytes.
    Text(&'e [u8]),
    /// Read memory straight into the record.
    Read { from: Vreg, access: Access },
    /// Store its count and copy its elements to the tail.
    Tail(Staged),
    /// An array's elements, one after the other.
    Elements(Vec<Plan<'e>>),
}

/// A variable field's elements.
#[derive(Clone, Copy)]
pub(super) struct Staged {
    pub(super) slot: Slot,
    /// Length in bytes.
    pub(super) length: Vreg,
    /// Most bytes as the verifier sees it.
    pub(super) bound: u32,
}

impl Lower<'_> {
    /// Writes one record.
    pub(super) fn record(&mut self, record: &Record, span: Span) -> Result<(), Error> {
        if record.values.len() != record.layout.fields().len() {
            return Err(Error::Malformed {
                what: "a record with more or fewer values than its layout has fields",
                span,
            });
        }
        let identity = self.intrinsic_at(Intrinsic::Identity, span)?;
        if is_long(&record.layout, record.asks.as_ref()) {
            return self.long_record(record, identity, span);
        }
        let fields: Vec<(&Field, &Expr)> = record.layout.fields().iter().zip(&record.values).collect();
        // All values are computed before room is reserved: from reserve to commit the ring waits for this record.
        let mut plans = Vec::with_capacity(fields.len());
        for (field, value) in &fields {
            plans.push(self.prepare(&field.ty, value)?);
        }
        for ((field, value), plan) in fields.iter().zip(&plans) {
            if let (FieldType::StackCopy { max, .. }, ExprKind::StackCopy { bytes }, Plan::Tail(staged)) =
                (&field.ty, &value.kind, plan)
            {
                self.stack_pieces(*staged, identity, (*max, *bytes), &record.to, span)?;
            }
        }
        let number = self.number(record);
        let size = self.record_size(&record.layout, &plans, span)?;
        // The sink knows them by the numbers of the machine.
        let identified = self.sink.identifies(number) && self.context.features.pid_namespace.is_none();
        let join = self.b.block();
        self.reserved((number, size), &record.to, (join, span), |lower, to| {
            if !identified {
                emit_identity(&mut lower.b, identity, to);
            }
            for ((field, _), plan) in fields.iter().zip(&plans) {
                lower.fill(field.offset(), &field.ty, plan, to)?;
            }
            lower.tail(&record.layout, &plans, to);
            lower.b.at(span);
            Ok(())
        })?;
        self.b.jump(join);
        self.b.switch_to(join);
        Ok(())
    }

    /// Reserves room for a record, has it written, and commits it; goes to `refused` where there is no room.
    pub(super) fn reserved(
        &mut self,
        (number, size): (Operand, Size),
        to: &Destination,
        (refused, span): (BlockId, Span),
        write: impl FnOnce(&mut Self, Vreg) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let guarded = self.is_guarded();
        let (no_room, written) = (self.b.cold_block(), self.b.block());
        if guarded {
            self.b.kfunc("bpf_preempt_disable", &[]);
        }
        let reservation = self
            .sink
            .reserve(&mut self.b, number, size, to, no_room)
            .map_err(|reason| Error::Sink { reason, span })?;
        write(self, reservation.record)?;
        let alone = self.is_alone();
        self.sink.commit(&mut self.b, reservation, alone);
        for (at, end) in [(None, written), (Some(no_room), refused)] {
            at.into_iter().for_each(|block| self.b.switch_to(block));
            if guarded {
                self.b.kfunc("bpf_preempt_enable", &[]);
            }
            self.b.jump(end);
        }
        self.b.switch_to(written);
        Ok(())
    }

    /// Whether preemption is off from reserve to commit: a thread preempted in between would hold up its page for all writers of the CPU.
    pub(super) fn is_guarded(&self) -> bool {
        self.context.preemptible
            && !self.whole
            && self.context.features.preempt_disable
            && self.sink.wants_preemption_off()
    }

    /// Whether no other task runs on the CPU from reserve to commit.
    pub(super) fn is_alone(&self) -> bool {
        self.is_guarded() || self.whole || !self.context.preemptible
    }

    /// The number of the `index`th record of an instance.
    fn nth(&mut self, instance: Vreg, first: u16, stride: u16, index: usize) -> Operand {
        let first = i64::from(first) + index as i64;
        let base = if stride == 1 {
            instance
        } else {
            self.b.mul(instance, i64::from(stride))
        };
        if first == 0 {
            base.into()
        } else {
            self.b.add(base, first).into()
        }
    }

    /// The number of this record: the event's, plus its place among the probe's records.
    pub(super) fn number(&mut self, record: &Record) -> Operand {
        let index = self
            .records
            .iter()
            .position(|r| std::ptr::eq(*r, record))
            .unwrap_or(0);
        self.record_number(index)
    }

    /// The number of the event itself.
    pub(super) fn event_number(&mut self) -> Vreg {
        let number = self.record_number(0);
        self.b.materialize(number)
    }

    /// Whether it is an event that the source names: its number is compared with theirs.
    pub(super) fn event_is(&mut self, what: EventName, text: &str) -> Result<Vreg, Error> {
        let (first, stride) = match self.context.number {
            EventNumber::Constant(number) => (number, 1),
            EventNumber::Cookie { first, stride } | EventNumber::Selected { first, stride } => {
                (first, stride)
            }
        };
        let members = self.context.members.clone();
        let places = (0_u64..)
            .zip(members.iter())
            .filter(|(_, member)| member.is(what, text));
        let number = self.event_number();
        let mut any = self.b.constant(0);
        for (place, _) in places {
            let wanted = u64::from(first) + place * u64::from(stride);
            let same = self.b.compare(Condition::Equal, number, wanted as i64);
            any = self.b.or(any, same);
        }
        Ok(any)
    }

    fn record_number(&mut self, index: usize) -> Operand {
        match self.context.number {
            EventNumber::Constant(number) => Operand::Imm(i64::from(number) + index as i64),
            EventNumber::Cookie { first, stride } => {
                let instance = self.instance.unwrap_or_else(|| {
                    let context = self.program_context();
                    self.b.helper(helper::GET_ATTACH_COOKIE, &[context.into()])
                });
                self.nth(instance, first, stride, index)
            }
            EventNumber::Selected { first, stride } => match self.instance {
                Some(instance) => self.nth(instance, first, stride, index),
                None => Operand::Imm(0),
            },
        }
    }

    fn intrinsic_at(&mut self, intrinsic: Intrinsic, span: Span) -> Result<Vreg, Error> {
        let expr = Expr::new(
            ExprKind::Intrinsic(intrinsic),
            crate::check::tree::Type::U64,
            span,
        );
        self.value(&expr)
    }

    /// Does what must be done before there is a record.
    pub(super) fn prepare<'e>(&mut self, ty: &FieldType, value: &'e Expr) -> Result<Plan<'e>, Error> {
        let outer = self.b.span();
        self.b.at(value.span);
        let plan = match (ty, &value.kind) {
            (FieldType::String { max }, ExprKind::ReadString { .. }) => {
                Plan::Tail(self.stage_string(value, *max)?)
            }
            (FieldType::Bytes { max }, ExprKind::ReadMemory { .. }) => {
                Plan::Tail(self.stage_memory(value, *max)?)
            }
            (FieldType::Stack { max, .. }, ExprKind::Stack { space, .. }) => {
                Plan::Tail(self.stage_stack(*space, *max))
            }
            (FieldType::StackCopy { max, .. }, ExprKind::StackCopy { bytes }) => {
                Plan::Tail(self.stage_stack_copy(*max, *bytes, value.span)?)
            }
            (_, ExprKind::ConstantBytes(text)) => Plan::Text(text),
            (FieldType::Array { element, .. }, ExprKind::Elements(values)) => {
                let parts = values.iter().map(|value| self.prepare(element, value));
                Plan::Elements(parts.collect::<Result<_, _>>()?)
            }
            (
                _,
                ExprKind::Bytes {
                    address,
                    offset,
                    size,
                    access,
                },
            ) if *size > WORDS => {
                let address = self.value(address)?;
                let from = self.b.add(address, *offset);
                Plan::Read {
                    from,
                    access: *access,
                }
            }
            (_, ExprKind::Bytes { .. } | ExprKind::Comm)
            | (FieldType::CharArray { .. }, ExprKind::MapValue(_) | ExprKind::Ternary { .. }) => {
                Plan::Copy(self.stage(value, u32::MAX)?)
            }
            (_, ExprKind::Tuple(_) | ExprKind::Sequence { .. } | ExprKind::Ternary { .. })
            | (FieldType::Buffer { .. } | FieldType::HeldStack(_), _)
                if !value.ty.is_scalar() =>
            {
                self.kept(ty, value)?
            }
            _ if self.is_late(value) => Plan::Late(value),
            (
                _,
                ExprKind::Load {
                    address,
                    offset,
                    size,
                    access: access @ (Access::Kernel | Access::User),
                    ..
                },
            ) if scalar_size(ty).is_some_and(|s| s <= *size) => {
                // The bytes that the helper has read can be left in place until they are stored.
                let address = self.value(address)?;
                let slot = self.b.slot(u32::from(*size), 8);
                self.probe_read(*access, slot, u32::from(*size), address, *offset);
                Plan::Copy(Bytes::of_slot(slot))
            }
            _ => Plan::Ready(self.operand(value)?),
        };
        self.b.at(outer);
        Ok(plan)
    }

    /// A value as it is kept, put together before there is a record.
    fn kept<'e>(&mut self, ty: &FieldType, value: &Expr) -> Result<Plan<'e>, Error> {
        let size = fixed_size(ty);
        if value.ty.is_string() {
            return Ok(Plan::Copy(self.stage(value, u32::MAX)?));
        }
        let slot = self.b.slot(size.max(1).next_multiple_of(8), 8);
        self.put(value, slot, 0, size)?;
        Ok(match size > WORDS {
            true => Plan::Read {
                from: self.b.slot_address(slot, 0),
                access: Access::Kernel,
            },
            false => Plan::Copy(Bytes::of_slot(slot)),
        })
    }

    /// Whether evaluating it calls no helper, so that it can wait until its register is needed.
    fn is_late(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Constant(_) | ExprKind::ContextPointer | ExprKind::Variable(_) => true,
            ExprKind::Load { address, access, .. } => {
                matches!(access, Access::Context | Access::Direct) && self.is_late(address)
            }
            ExprKind::BitField { value, .. }
            | ExprKind::Unary { value, .. }
            | ExprKind::Convert { value, .. } => self.is_late(value),
            ExprKind::Binary { left, right, .. }
            | ExprKind::Compare { left, right, .. }
            | ExprKind::Logic { left, right, .. } => self.is_late(left) && self.is_late(right),
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => {
                self.is_late(condition)
                    && then.as_ref().is_none_or(|t| self.is_late(t))
                    && self.is_late(otherwise)
            }
            ExprKind::Intrinsic(intrinsic) => self.cache.get(*intrinsic).is_some(),
            _ => false,
        }
    }

    fn stage_string(&mut self, text: &Expr, max: u32) -> Result<Staged, Error> {
        let slot = self.b.slot(string_room(text, max), 8);
        let result = self.read_string(slot, text, max)?;
        if let ExprKind::ReadString { max: own, .. } = text.kind
            && own < max
        {
            // A NUL behind the last byte that is kept says that there were more. Of a string that fits, this byte is its own NUL or lies behind it: so
            // it is stored in any case, and the verifier follows what comes after once.
            let last = self.b.slot_address(slot, own);
            self.b.store(Width::B1, last, 0, 0);
        }
        let length = self.b.sub(result, 1);
        Ok(self.bounded(slot, length, max, !0, &fault_in_string(max)))
    }

    fn stage_memory(&mut self, memory: &Expr, max: u32) -> Result<Staged, Error> {
        let (slot, length) = self.read_memory(memory, max)?;
        Ok(self.bounded(slot, length, max, !0, &fault_in_string(max)))
    }

    /// A stack that the kernel refuses is marked: it takes one at a time in each context of a CPU (`get_recursion_context` in
    /// kernel/events/internal.h), and page faults happen while it reads a user's.
    fn stage_stack(&mut self, space: Space, max: u32) -> Staged {
        let slot = self.b.slot(max.max(1) * 8, 8);
        if max == 0 {
            let length = self.b.constant(0);
            return Staged {
                slot,
                length,
                bound: 0,
            };
        }
        let (place, context) = (self.b.slot_address(slot, 0), self.program_context());
        let flags = self.stack_flags(space);
        let length = self.b.helper(
            helper::GET_STACK,
            &[context.into(), place.into(), (max * 8).into(), flags],
        );
        self.bounded(slot, length, max * 8, !7, &FAULT_IN_STRING)
    }

    /// Puts `instead` in place of what has a length beyond `max` (an error, seen as unsigned). The mask says so to the verifier where the
    /// comparison does not: kernels before 6.9 forget what a comparison proved of a value that lives in memory.
    fn bounded(&mut self, slot: Slot, length: Vreg, max: u32, keep: i64, instead: &[u8]) -> Staged {
        let result = self.b.vreg();
        self.b.assign(result, length);
        let (error, next) = (self.b.cold_block(), self.b.block());
        self.b.branch(Condition::Greater, result, max, error, next);
        self.b.switch_to(error);
        let to = self.b.slot_address(slot, 0);
        self.store_string(instead, instead.len() as u32, to, 0);
        self.b.assign(result, instead.len() as i64);
        self.b.jump(next);
        self.b.switch_to(next);
        let bound = (max + 1).next_power_of_two() - 1;
        let length = self.b.alu(AluOp::And, Bits::B64, result, i64::from(bound) & keep);
        Staged { slot, length, bound }
    }

    /// The record's size: constant, or the sum of its parts rounded up to 8.
    fn record_size(&mut self, layout: &Layout, plans: &[Plan<'_>], span: Span) -> Result<Size, Error> {
        if let Some(size) = layout.constant_size() {
            return Ok(Size::Constant(size));
        }
        let staged: Vec<Staged> = plans.iter().filter_map(Plan::tail).collect();
        let needed = layout.fixed_end() + staged.iter().map(|s| s.bound).sum::<u32>();
        let limit = self.sink.slack();
        if needed > limit {
            return Err(Error::TailTooLarge { needed, limit, span });
        }
        let lengths = staged.iter().map(|s| s.length);
        let sum = lengths.reduce(|sum, length| self.b.add(sum, length));
        let Some(sum) = sum else {
            return Err(Error::Malformed {
                what: "a variable field without a variable value",
                span,
            });
        };
        let padded = self.b.add(sum, layout.fixed_end() + 7);
        Ok(Size::Variable {
            value: self.b.and(padded, -8),
            max: layout.max_size(),
        })
    }

    /// Fills a field of the fixed part.
    pub(super) fn fill(
        &mut self,
        offset: u32,
        ty: &FieldType,
        plan: &Plan<'_>,
        to: Vreg,
    ) -> Result<(), Error> {
        match plan {
            Plan::Elements(parts) => {
                let FieldType::Array { element, .. } = ty else {
                    return Err(Error::Malformed {
                        what: "elements for a field that is no array",
                        span: self.b.span(),
                    });
                };
                for (index, part) in parts.iter().enumerate() {
                    self.fill(offset + index as u32 * fixed_size(element), element, part, to)?;
                }
            }
            Plan::Late(expr) => {
                // The store cuts the value, so what only extends it is not computed.
                let expr = low_bytes(expr, scalar_size(ty));
                let value = self.operand(expr)?;
                self.b.at(expr.span);
                self.scalar(offset, ty, expr, to, value)?;
            }
            Plan::Ready(value) => {
                let (to, offset) = self.near(to, offset.cast_signed());
                let width = scalar_size(ty).and_then(|s| Width::from_bytes(s.into()));
                let width = width.ok_or(Error::Malformed {
                    what: "a number for a field that is not one",
                    span: self.b.span(),
                })?;
                self.b.store(width, to, offset, *value);
            }
            Plan::Copy(bytes) => self.copy(*bytes, fixed_size(ty), to, offset),
            Plan::Text(text) => self.store_string(text, fixed_size(ty), to, offset),
            Plan::Read { from, access } => {
                let place = self.b.add(to, offset);
                let helper = self.reader(*access);
                let size = fixed_size(ty);
                self.b
                    .helper(helper, &[place.into(), size.into(), (*from).into()]);
            }
            Plan::Tail(staged) => {
                let count = match ty {
                    stack if stack.is_stack() => self.b.shift_right(staged.length, 3),
                    _ => staged.length,
                };
                let (to, offset) = self.near(to, offset.cast_signed());
                self.b.store(Width::B2, to, offset, count);
            }
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        offset: u32,
        ty: &FieldType,
        expr: &Expr,
        to: Vreg,
        value: Operand,
    ) -> Result<(), Error> {
        let size = scalar_size(ty).ok_or(Error::Malformed {
            what: "a number for a field that is not one",
            span: expr.span,
        })?;
        let (to, offset) = self.near(to, offset.cast_signed());
        self.b.store(width(size, expr)?, to, offset, value);
        Ok(())
    }

    /// Copies the elements of variable fields behind the fixed part, one after the other.
    fn tail(&mut self, layout: &Layout, plans: &[Plan<'_>], to: Vreg) {
        let mut place: Option<Vreg> = None;
        for field in layout.tail() {
            let index = layout.fields().iter().position(|f| std::ptr::eq(f, field));
            let Some(staged) = index.and_then(|i| plans.get(i)).and_then(Plan::tail) else {
                continue;
            };
            let at = match place {
                Some(at) => at,
                None => self.b.add(to, layout.fixed_end()),
            };
            let from = self.b.slot_address(staged.slot, 0);
            let helper = self.reader(Access::Kernel);
            self.b
                .helper(helper, &[at.into(), staged.length.into(), from.into()]);
            place = Some(self.b.add(at, staged.length));
        }
    }
}

impl Plan<'_> {
    fn tail(&self) -> Option<Staged> {
        match self {
            Self::Tail(staged) => Some(*staged),
            _ => None,
        }
    }
}

/// A cheaper expression with the same low bytes: a conversion is not needed where only these are stored.
fn low_bytes(expr: &Expr, stored: Option<u8>) -> &Expr {
    match &expr.kind {
        ExprKind::Convert { value, size, .. } if stored.is_some_and(|stored| stored <= *size) => {
            low_bytes(value, stored)
        }
        _ => expr,
    }
}

/// Bytes of a field that holds one number.
fn scalar_size(ty: &FieldType) -> Option<u8> {
    match ty {
        FieldType::Integer { size, .. }
        | FieldType::Enumeration { size, .. }
        | FieldType::Flags { size, .. } => Some(*size),
        FieldType::Bool => Some(1),
        FieldType::Pointer { .. } => Some(8),
        _ => None,
    }
}

/// Bytes of a field of fixed size.
pub(super) fn fixed_size(ty: &FieldType) -> u32 {
    match ty {
        FieldType::CharArray { size } => *size,
        FieldType::Array { element, count } => fixed_size(element) * count,
        FieldType::Composite(composite) => composite.size,
        other => scalar_size(other).map_or_else(|| other.fixed_size(), u32::from),
    }
}
