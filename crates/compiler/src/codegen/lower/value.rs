//! Code for scalars and conditions: an expression's value goes to a register; where only its truth is wanted it becomes a branch.

use super::Lower;
use super::value_cache::ValueCache;
use crate::check::tree::{Access, BinaryOp, CompareOp, Expr, ExprKind, Intrinsic, Type, UnaryOp};
use crate::context::ProgramKind;
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Builder, Condition, Helper, Operand, Slot, Vreg, Width, helper};
use crate::map::external_name;

impl Lower<'_> {
    /// A scalar as an operand: a constant number, or the register with its value.
    pub(super) fn operand(&mut self, expr: &Expr) -> Result<Operand, Error> {
        match expr.kind {
            ExprKind::Constant(n) => Ok(Operand::Imm(n.cast_signed())),
            _ => self.value(expr).map(Operand::Reg),
        }
    }

    /// A scalar in a register.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Vreg, Error> {
        let outer = self.b.span();
        self.b.at(expr.span);
        let value = self.value_here(expr);
        self.b.at(outer);
        value
    }

    fn value_here(&mut self, expr: &Expr) -> Result<Vreg, Error> {
        match &expr.kind {
            ExprKind::Constant(n) => Ok(self.b.constant(n.cast_signed())),
            ExprKind::ContextPointer => Ok(self.program_context()),
            ExprKind::ElementKey => self.element(true, expr.span),
            ExprKind::ElementValue => self.element(false, expr.span),
            ExprKind::Load {
                address,
                offset,
                size,
                signed,
                access,
            } => {
                let value = self.load(address, *offset, width(*size, expr)?, *signed, *access)?;
                let may_be_null = self.context.program == ProgramKind::Iterator
                    && *access == Access::Context
                    && matches!(expr.ty, Type::Pointer(_));
                if may_be_null {
                    // The guard has excluded null, but the verifier forgets that with each new load.
                    self.b.branch_if(Condition::Equal, value, 0, self.done);
                }
                Ok(value)
            }
            ExprKind::BitField {
                value,
                shift,
                bits,
                signed,
            } => {
                let value = self.value(value)?;
                Ok(self.bit_field(value, u32::from(*shift), u32::from(*bits), *signed))
            }
            ExprKind::FrameWords(words) => {
                let slot = self.b.slot(words.len() as u32 * 8, 8);
                let words: Vec<Vreg> = words
                    .iter()
                    .map(|word| self.value(word))
                    .collect::<Result<_, _>>()?;
                let place = self.b.slot_address(slot, 0);
                for (index, word) in words.into_iter().enumerate() {
                    self.b.store(Width::B8, place, index as i16 * 8, word);
                }
                Ok(place)
            }
            ExprKind::Intrinsic(intrinsic) => self.intrinsic(*intrinsic, expr),
            ExprKind::HelperCall { helper, operands } if *helper == helper::SKB_OUTPUT => {
                self.packet(operands, expr.span)
            }
            ExprKind::HelperCall { helper, operands } => {
                let operands = operands.iter().map(|operand| self.operand(operand));
                let operands = operands.collect::<Result<Vec<_>, _>>()?;
                Ok(self.b.helper(*helper, &operands))
            }
            ExprKind::Unary { op, value } => {
                let value = self.value(value)?;
                Ok(match op {
                    UnaryOp::Negate => self.b.mul(value, -1),
                    UnaryOp::BitNot => self.b.alu(AluOp::Xor, Bits::B64, value, -1),
                    UnaryOp::Not => self.b.compare(Condition::Equal, value, 0),
                })
            }
            ExprKind::Binary {
                op,
                signed,
                left,
                right,
            } => self.binary(*op, *signed, left, right),
            ExprKind::Compare {
                op,
                signed,
                left,
                right,
            } => {
                let left = self.value(left)?;
                let right = self.operand(right)?;
                Ok(self.b.compare(condition(*op, *signed), left, right))
            }
            ExprKind::Logic { .. }
            | ExprKind::StringEqual { .. }
            | ExprKind::BytesEqual { .. }
            | ExprKind::StringBegins { .. }
            | ExprKind::StringGlob { .. } => self.truth(expr),
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => self.ternary(condition, then.as_deref(), otherwise),
            ExprKind::Convert { value, size, signed } => {
                let value = self.value(value)?;
                Ok(self.b.extend(value, width(*size, expr)?, *signed))
            }
            ExprKind::Parameter(name) => {
                let value = self.sink.parameter(&mut self.b, name);
                value.map_err(|reason| Error::Sink {
                    reason,
                    span: expr.span,
                })
            }
            ExprKind::IsTarget(thread) => {
                let thread = self.value(thread)?;
                let known = self.sink.is_target(&mut self.b, thread);
                known.map_err(|reason| Error::Sink {
                    reason,
                    span: expr.span,
                })
            }
            ExprKind::Variable(id) => self.variable_value(*id, expr.span),
            ExprKind::VariableAddress(id) => self.variable_address(*id, expr.span),
            ExprKind::MapCopy(place, size) => {
                let slot = self.map_copy(place, *size)?;
                Ok(self.b.slot_address(slot, 0))
            }
            ExprKind::Sequence { statements, value } => {
                self.before_value(statements)?;
                self.value_here(value)
            }
            ExprKind::MapValue(place) => self.map_scalar(place),
            ExprKind::HasKey(place) => self.has_key(place),
            ExprKind::Generation(map) => Ok(self.generation(map)),
            ExprKind::MapAddress(map) => {
                let map = self.b.external(&external_name(map));
                Ok(self.b.map_pointer(map))
            }
            ExprKind::Aggregate(place, number) => self.aggregation_value(place, *number),
            ExprKind::StringFind {
                text,
                needle,
                bytes,
                prefix,
            } => self.string_find(text, needle, *bytes, *prefix),
            ExprKind::BytesOrder { left, right, bytes } => self.bytes_order(left, right, *bytes),
            ExprKind::SwapBytes { value, size } => {
                let value = self.value(value)?;
                Ok(self.b.swap_bytes(value, width(*size, expr)?))
            }
            ExprKind::EventNumber => Ok(self.event_number()),
            ExprKind::DividedByZero => Ok(self.divided_by_zero()),
            ExprKind::OutsideOfArray => Ok(self.outside_of_array()),
            ExprKind::EventIs { what, text } => self.event_is(*what, text),
            ExprKind::ConstantBytes(_)
            | ExprKind::Bytes { .. }
            | ExprKind::Elements(_)
            | ExprKind::Tuple(_)
            | ExprKind::Comm
            | ExprKind::ReadString { .. }
            | ExprKind::ReadMemory { .. }
            | ExprKind::Stack { .. }
            | ExprKind::StackCopy { .. }
            | ExprKind::Unwound { .. } => Err(Error::Malformed {
                what: "bytes where a number is wanted",
                span: expr.span,
            }),
        }
    }

    fn load(
        &mut self,
        address: &Expr,
        offset: i32,
        width: Width,
        signed: bool,
        access: Access,
    ) -> Result<Vreg, Error> {
        let address = self.value(address)?;
        match access {
            Access::Context | Access::Direct => {
                let (base, offset) = self.near(address, offset);
                Ok(self.b.load_extended(width, signed, base, offset))
            }
            Access::Kernel | Access::User => {
                let slot = self.b.slot(width.bytes(), 8);
                self.probe_read(access, slot, width.bytes(), address, offset);
                let place = self.b.slot_address(slot, 0);
                Ok(self.b.load_extended(width, signed, place, 0))
            }
        }
    }

    /// Base and offset of a memory access, with an offset that fits the instruction.
    pub(super) fn near(&mut self, base: Vreg, offset: i32) -> (Vreg, i16) {
        match i16::try_from(offset) {
            Ok(offset) => (base, offset),
            Err(_) => (self.b.add(base, offset), 0),
        }
    }

    /// Reads `size` bytes into a frame object; they become zero where the memory cannot be read.
    pub(super) fn probe_read(&mut self, access: Access, slot: Slot, size: u32, address: Vreg, offset: i32) {
        // An array at the end of a struct may have no elements (`[0]`), and no room.
        if size == 0 {
            return;
        }
        let to = self.b.slot_address(slot, 0);
        let from = self.b.add(address, offset);
        let helper = self.reader(access);
        self.read_by(helper, &[to.into(), size.into(), from.into()]);
    }

    /// The helper that reads this kind of memory. Before Linux 5.5 one helper reads both.
    pub(super) fn reader(&self, access: Access) -> Helper {
        match (self.context.features.probe_read_kernel, access) {
            (false, _) => helper::PROBE_READ,
            (true, Access::User) => helper::PROBE_READ_USER,
            (true, _) => helper::PROBE_READ_KERNEL,
        }
    }

    fn bit_field(&mut self, value: Vreg, shift: u32, bits: u32, signed: bool) -> Vreg {
        if bits == 0 || bits + shift > 64 {
            return self.b.constant(0);
        }
        let up = self.b.shift_left(value, 64 - bits - shift);
        let op = if signed {
            AluOp::ShiftRightSigned
        } else {
            AluOp::ShiftRight
        };
        self.b.alu(op, Bits::B64, up, 64 - bits)
    }

    pub(super) fn intrinsic(&mut self, intrinsic: Intrinsic, expr: &Expr) -> Result<Vreg, Error> {
        if let Some(v) = self.cache.get(intrinsic) {
            return Ok(v);
        }
        let v = match intrinsic {
            Intrinsic::Helper { helper, .. } => self.b.helper(helper, &[]),
            Intrinsic::FunctionAddress => {
                let context = self.program_context();
                self.b.helper(helper::GET_FUNC_IP, &[context.into()])
            }
            Intrinsic::Identity => self.task_numbers(),
            Intrinsic::PreemptCount(count) => self.preempt_count(count),
            Intrinsic::ProcessorFlags => self.processor_flags(),
            Intrinsic::StartTime => self.sink.start_time(&mut self.b).map_err(|reason| Error::Sink {
                reason,
                span: expr.span,
            })?,
        };
        self.cache.put(intrinsic, v);
        Ok(v)
    }

    /// The numbers of the thread, in the low half, and of its process.
    pub(super) fn task_numbers(&mut self) -> Vreg {
        let Some(namespace) = self.context.features.pid_namespace else {
            return self.b.helper(helper::GET_CURRENT_PID_TGID, &[]);
        };
        // struct bpf_pidns_info: the thread's number, then the process's; both are 0 where it is not in the namespace.
        let slot = self.b.slot(8, 8);
        self.clear(slot, 0, 8);
        let to = self.b.slot_address(slot, 0);
        let device = self.b.constant(namespace.device.cast_signed());
        let inode = self.b.constant(namespace.inode.cast_signed());
        let args = [device.into(), inode.into(), to.into(), 8.into()];
        self.b.helper(helper::GET_NS_CURRENT_PID_TGID, &args);
        let place = self.b.slot_address(slot, 0);
        self.b.load(Width::B8, place, 0)
    }

    fn binary(&mut self, op: BinaryOp, signed: bool, left: &Expr, right: &Expr) -> Result<Vreg, Error> {
        let left = self.value(left)?;
        let right = self.operand(right)?;
        let op = match op {
            BinaryOp::Add => AluOp::Add,
            BinaryOp::Subtract => AluOp::Sub,
            BinaryOp::Multiply => AluOp::Mul,
            BinaryOp::Divide if signed => return Ok(signed_division(&mut self.b, AluOp::Div, left, right)),
            BinaryOp::Modulo if signed => return Ok(signed_division(&mut self.b, AluOp::Mod, left, right)),
            BinaryOp::Divide => AluOp::Div,
            BinaryOp::Modulo => AluOp::Mod,
            BinaryOp::ShiftLeft => AluOp::ShiftLeft,
            BinaryOp::ShiftRight if signed => AluOp::ShiftRightSigned,
            BinaryOp::ShiftRight => AluOp::ShiftRight,
            BinaryOp::And => AluOp::And,
            BinaryOp::Or => AluOp::Or,
            BinaryOp::Xor => AluOp::Xor,
        };
        Ok(self.b.alu(op, Bits::B64, left, right))
    }

    /// The truth of an expression as 1 or 0, by a branch.
    fn truth(&mut self, expr: &Expr) -> Result<Vreg, Error> {
        let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
        let result = self.b.vreg();
        let (known_yes, known_no) = self.condition(expr, yes, no)?;
        for (block, value) in [(yes, 1), (no, 0)] {
            self.b.switch_to(block);
            self.b.assign(result, value);
            self.b.jump(join);
        }
        self.cache = known_yes.common(&known_no);
        self.b.switch_to(join);
        Ok(result)
    }

    fn ternary(&mut self, condition: &Expr, then: Option<&Expr>, otherwise: &Expr) -> Result<Vreg, Error> {
        let result = self.b.vreg();
        if let Some(then) = then {
            self.either(condition, [then, otherwise], |lower, arm| {
                let value = lower.operand(arm)?;
                lower.b.assign(result, value);
                Ok(())
            })?;
            return Ok(result);
        }
        let (no, join) = (self.b.block(), self.b.block());
        let value = self.value(condition)?;
        self.b.assign(result, value);
        self.b.branch(Condition::NotEqual, value, 0, join, no);
        let known = self.cache.clone();
        self.b.switch_to(no);
        let value = self.operand(otherwise)?;
        self.b.assign(result, value);
        self.b.jump(join);
        self.cache = known;
        self.b.switch_to(join);
        Ok(result)
    }

    /// Emits a branch on the condition, and `work` for each of the two arms.
    pub(super) fn either(
        &mut self,
        condition: &Expr,
        [then, otherwise]: [&Expr; 2],
        mut with: impl FnMut(&mut Self, &Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
        let (known_yes, known_no) = self.condition(condition, yes, no)?;
        let mut after = Vec::new();
        for (block, arm, known) in [(yes, then, known_yes), (no, otherwise, known_no)] {
            self.b.switch_to(block);
            self.cache = known;
            with(self, arm)?;
            self.b.jump(join);
            after.push(self.cache.clone());
        }
        self.cache = after.into_iter().reduce(|a, b| a.common(&b)).unwrap_or_default();
        self.b.switch_to(join);
        Ok(())
    }

    /// Ends the current block with a jump: to `yes` where the expression is not 0, else to `no`. Gives the values that are known in each.
    pub(super) fn condition(
        &mut self,
        expr: &Expr,
        yes: BlockId,
        no: BlockId,
    ) -> Result<(ValueCache, ValueCache), Error> {
        let outer = self.b.span();
        self.b.at(expr.span);
        let known = self.condition_here(expr, yes, no);
        self.b.at(outer);
        if let Ok((known_yes, _)) = &known {
            self.cache = known_yes.clone();
        }
        known
    }

    fn condition_here(
        &mut self,
        expr: &Expr,
        yes: BlockId,
        no: BlockId,
    ) -> Result<(ValueCache, ValueCache), Error> {
        match &expr.kind {
            ExprKind::Constant(n) => self.b.jump(if *n != 0 { yes } else { no }),
            ExprKind::Unary {
                op: UnaryOp::Not,
                value,
            } => {
                let (known_no, known_yes) = self.condition(value, no, yes)?;
                return Ok((known_yes, known_no));
            }
            ExprKind::Logic { and, left, right } => {
                let middle = self.b.block();
                // Values computed on the left are known on the right. Behind both only those are known that every way there has computed.
                let (go, stop, known_stop) = if *and {
                    let (go, stop) = self.condition(left, middle, no)?;
                    (go, false, stop)
                } else {
                    let (stop, go) = self.condition(left, yes, middle)?;
                    (go, true, stop)
                };
                self.b.switch_to(middle);
                self.cache = go;
                let (known_yes, known_no) = self.condition(right, yes, no)?;
                return Ok(if stop {
                    (known_stop.common(&known_yes), known_no)
                } else {
                    (known_yes, known_stop.common(&known_no))
                });
            }
            ExprKind::Compare {
                op,
                signed,
                left,
                right,
            } => {
                let left = self.value(left)?;
                let right = self.operand(right)?;
                self.b.branch(condition(*op, *signed), left, right, yes, no);
            }
            ExprKind::StringEqual {
                left,
                right,
                bytes,
                negated,
            } => {
                let (equal, different) = if *negated { (no, yes) } else { (yes, no) };
                self.string_equal(left, right, *bytes, equal, different)?;
            }
            ExprKind::BytesEqual {
                left,
                right,
                bytes,
                negated,
            } => {
                let (equal, different) = if *negated { (no, yes) } else { (yes, no) };
                self.bytes_equal([left, right], *bytes, equal, different)?;
            }
            ExprKind::StringBegins { text, with, bytes } => {
                self.string_begins(text, with, *bytes, (yes, no))?
            }
            ExprKind::StringGlob { text, glob, bytes } => self.string_glob(text, glob, *bytes, (yes, no))?,
            _ => {
                let value = self.value(expr)?;
                self.b.branch(Condition::NotEqual, value, 0, yes, no);
            }
        }
        Ok((self.cache.clone(), self.cache.clone()))
    }
}

/// The width of an access of that many bytes.
pub(super) fn width(size: u8, expr: &Expr) -> Result<Width, Error> {
    Width::from_bytes(size.into()).ok_or(Error::Malformed {
        what: "a number of a size that is not 1, 2, 4 or 8",
        span: expr.span,
    })
}

fn condition(op: CompareOp, signed: bool) -> Condition {
    match (op, signed) {
        (CompareOp::Equal, _) => Condition::Equal,
        (CompareOp::NotEqual, _) => Condition::NotEqual,
        (CompareOp::Less, false) => Condition::Less,
        (CompareOp::LessEqual, false) => Condition::LessEqual,
        (CompareOp::Greater, false) => Condition::Greater,
        (CompareOp::GreaterEqual, false) => Condition::GreaterEqual,
        (CompareOp::Less, true) => Condition::SignedLess,
        (CompareOp::LessEqual, true) => Condition::SignedLessEqual,
        (CompareOp::Greater, true) => Condition::SignedGreater,
        (CompareOp::GreaterEqual, true) => Condition::SignedGreaterEqual,
    }
}

/// Signed division by way of magnitudes, since BPF's own is of Linux 6.6: `(|l| op |r|)` with the sign put back. The
/// quotient is negative where the signs differ, the remainder where the dividend is. A divisor of 0 gives 0 and the dividend.
pub(super) fn signed_division(b: &mut Builder, op: AluOp, left: Vreg, right: Operand) -> Vreg {
    let right = b.materialize(right);
    let (left_sign, left) = magnitude(b, left);
    let (right_sign, right) = magnitude(b, right);
    let value = b.alu(op, Bits::B64, left, right);
    let sign = match op {
        AluOp::Div => b.alu(AluOp::Xor, Bits::B64, left_sign, right_sign),
        _ => left_sign,
    };
    let flipped = b.alu(AluOp::Xor, Bits::B64, value, sign);
    b.sub(flipped, sign)
}

/// Sign (0 or -1) and absolute value.
fn magnitude(b: &mut Builder, value: Vreg) -> (Vreg, Vreg) {
    let sign = b.alu(AluOp::ShiftRightSigned, Bits::B64, value, 63);
    let flipped = b.alu(AluOp::Xor, Bits::B64, value, sign);
    (sign, b.sub(flipped, sign))
}
