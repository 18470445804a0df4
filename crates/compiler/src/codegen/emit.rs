//! Intermediate code with places for its registers becomes instructions; no choices are left but the order of moves.

use super::allocate::{Allocation, Location};
use super::frame::Frame;
use super::live::{Live, arguments};
use super::moves;
use super::parameters::{self, RegisterLoads};
use crate::ir::{AluOp, AtomicOp, Bits, BlockId, Condition, End, Function, Op, Operand, Vreg, Width};
use kestrel_bpf::asm::{Assembler, Label};
use kestrel_bpf::code::Code;
use kestrel_bpf::isa::{Alu, Atomic, Cond, Order, Reg, Size, Width as Machine};
use std::collections::BTreeMap;

pub(super) const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];
/// A function with places for its registers and objects.
pub(crate) struct Placed<'a> {
    pub(crate) function: &'a Function,
    pub(crate) live: &'a Live,
    pub(crate) allocation: &'a Allocation,
    pub(crate) frame: &'a Frame,
}

/// Emits a program: the first function is the program itself, the others are those that helpers call back, by number (`None`: one that nothing refers to any more);
/// then come those that it calls itself, by name.
pub(crate) fn emit(
    functions: &[Option<Placed<'_>>],
    called: &[(&str, Placed<'_>)],
) -> Result<Code, kestrel_bpf::Error> {
    let mut asm = Assembler::new();
    let labels = Functions {
        callbacks: functions.iter().skip(1).map(|_| asm.label()).collect(),
        called: called.iter().map(|(name, _)| (*name, asm.label())).collect(),
    };
    for (number, placed) in functions.iter().enumerate() {
        let Some(placed) = placed else { continue };
        let callback = number
            .checked_sub(1)
            .and_then(|number| labels.callbacks.get(number));
        if let Some(label) = callback {
            asm.callback(*label);
        }
        asm = emit_function(asm, placed, &labels);
    }
    for (name, placed) in called {
        let parameters = placed.function.parameters.map_or(0, |p| p.count);
        if let Some(label) = labels.called.get(name) {
            asm.own_function(*label, parameters);
        }
        asm = emit_function(asm, placed, &labels);
    }
    asm.finish()
}

/// Offsets of the functions of a program.
struct Functions<'a> {
    /// Labels of functions that helpers call back, by number.
    callbacks: Vec<Label>,
    /// Labels of functions that the program calls, by name.
    called: BTreeMap<&'a str, Label>,
}

/// Emits all blocks in the order that the positions were counted in.
fn emit_function(mut asm: Assembler, placed: &Placed<'_>, functions: &Functions<'_>) -> Assembler {
    let function = placed.function;
    let labels = function.ids().map(|_| asm.label()).collect();
    let mut emitter = Emitter {
        asm,
        labels,
        functions,
        allocation: placed.allocation,
        frame: placed.frame,
    };
    let taken = RegisterLoads::of(function, placed.allocation);
    emitter.entry(function, &taken);
    let live = placed.live;
    for (at, id) in live.order.iter().enumerate() {
        let block = function.block(*id);
        let label = emitter.label(*id);
        emitter.asm.bind(label);
        for (place, inst) in block.insts.iter().enumerate() {
            emitter.asm.at(inst.span);
            match (&inst.op, taken.by(*id, place)) {
                (Op::Load { dst, .. }, Some(register)) => emitter.write_back(*dst, register),
                _ => emitter.op(&inst.op),
            }
        }
        emitter.asm.at(block.end_span);
        if let Some(end) = &block.end {
            emitter.end(end, live.order.get(at + 1).copied());
        }
    }
    emitter.asm
}

struct Emitter<'a> {
    asm: Assembler,
    labels: Vec<Label>,
    functions: &'a Functions<'a>,
    allocation: &'a Allocation,
    frame: &'a Frame,
}

impl Emitter<'_> {
    fn label(&self, id: BlockId) -> Label {
        self.labels[id.0 as usize]
    }

    fn place(&self, v: Vreg) -> &Location {
        &self.allocation.places[v.0 as usize]
    }

    /// The context is in register 1 at the entry; what a function that is called back is given is kept in its frame.
    fn entry(&mut self, function: &Function, taken: &RegisterLoads) {
        if let Some(parameters) = function.parameters {
            for (place, register) in (0..).zip(parameters::registers(parameters)) {
                if taken.is_stored(place) {
                    let at = self.frame.object(parameters.slot, place * 8);
                    self.asm.store(Size::DW, Reg::R10, at, register);
                }
            }
        }
        if let Some(context) = function.context {
            self.write_back(context, Reg::R1);
        }
    }

    /// Brings a value into this very register.
    fn bring(&mut self, to: Reg, v: Vreg) {
        match self.place(v).clone() {
            Location::Reg(from) if from == to => {}
            Location::Reg(from) => {
                self.asm.mov(to, from);
            }
            Location::Again(op) => self.make_again(to, &op),
            Location::Nowhere => debug_assert!(false, "{v} is read but lives nowhere"),
        }
    }

    fn make_again(&mut self, to: Reg, op: &Op) {
        match op {
            Op::Const { value, .. } => self.asm.constant(to, value.cast_unsigned()),
            Op::SlotAddress { slot, offset, .. } => {
                let at = self.frame.object(*slot, *offset);
                self.asm.mov(to, Reg::R10).add(to, at)
            }
            Op::Map { map, .. } => self.asm.map(to, *map),
            Op::KernelVariable { id, .. } => self.asm.kernel_variable(to, *id),
            Op::MapValue { map, offset, .. } => self.asm.map_value(to, *map, *offset),
            other => {
                debug_assert!(false, "cannot make again: {other}");
                &mut self.asm
            }
        };
    }

    /// The register a value is in.
    fn read(&self, v: Vreg) -> Reg {
        match self.place(v) {
            Location::Reg(reg) => *reg,
            other => {
                debug_assert!(false, "{v} has no register but {other:?}");
                Reg::R0
            }
        }
    }

    fn read_operand(&self, operand: Operand) -> kestrel_bpf::asm::Operand {
        match operand {
            Operand::Reg(v) => self.read(v).into(),
            // The `legal` pass left only numbers that fit.
            Operand::Imm(n) => (n as i32).into(),
        }
    }

    /// Register and offset of an access; addresses in the frame need no register.
    fn reach(&self, base: Vreg, offset: i16) -> (Reg, i32) {
        let offset = i32::from(offset);
        if let Location::Again(Op::SlotAddress {
            slot, offset: within, ..
        }) = self.place(base)
        {
            return (Reg::R10, self.frame.object(*slot, *within) + offset);
        }
        (self.read(base), offset)
    }

    /// Copies a result from the register that the machine left it in.
    fn write_back(&mut self, dst: Vreg, from: Reg) {
        let to = self.read(dst);
        if to != from {
            self.asm.mov(to, from);
        }
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Const { dst, .. }
            | Op::SlotAddress { dst, .. }
            | Op::Map { dst, .. }
            | Op::KernelVariable { dst, .. }
            | Op::MapValue { dst, .. } => {
                // A value that is made again at each use needs no register here.
                if !matches!(self.place(*dst), Location::Again(_)) {
                    let to = self.read(*dst);
                    self.make_again(to, op);
                }
            }
            Op::Callback { dst, number } => {
                let to = self.read(*dst);
                if let Some(label) = self.functions.callbacks.get(*number as usize) {
                    self.asm.function(to, *label);
                }
            }
            Op::Copy { dst, src } => {
                let from = self.read(*src);
                self.write_back(*dst, from);
            }
            Op::Alu {
                op,
                bits,
                dst,
                left,
                right,
            } => self.alu(*op, *bits, *dst, *left, *right),
            Op::Compare {
                condition,
                bits,
                dst,
                left,
                right,
            } => self.compare(*condition, *bits, *dst, *left, *right),
            Op::Extend {
                dst,
                src,
                width,
                signed,
            } => self.extend(*dst, *src, *width, *signed),
            Op::SwapBytes { dst, src, width } => {
                let to = self.read(*dst);
                self.bring(to, *src);
                // One byte has no order; it is only cut to its width, as the instruction does for wider ones.
                if *width == Width::B1 {
                    self.asm.and(to, 0xff);
                } else {
                    self.asm.endian(Order::Big, width.bytes() as u8 * 8, to);
                }
            }
            Op::Load {
                dst,
                width,
                signed,
                base,
                offset,
            } => {
                let (base, offset) = self.reach(*base, *offset);
                let to = self.read(*dst);
                self.asm.load(size(*width), to, base, offset);
                self.extend_in_place(to, *width, *signed, true);
            }
            Op::Touch { dst, base, offset } => {
                let (base, offset) = self.reach(*base, *offset);
                let to = self.read(*dst);
                self.asm.load(Size::DW, to, base, offset);
            }
            Op::Store {
                width,
                base,
                offset,
                value,
            } => {
                let (base, offset) = self.reach(*base, *offset);
                let value = self.read_operand(*value);
                self.asm.store(size(*width), base, offset, value);
            }
            Op::Atomic {
                op,
                width,
                base,
                offset,
                value,
                old,
            } => self.atomic(*op, *width, (*base, *offset), *value, *old),
            Op::CompareExchange {
                dst,
                width,
                base,
                offset,
                expected,
                new,
            } => {
                let (base, offset) = self.reach(*base, *offset);
                let new = self.read(*new);
                // The instruction compares with R0 and leaves the old value there.
                self.bring(Reg::R0, *expected);
                self.asm.atomic(Atomic::Cmpxchg, size(*width), base, offset, new);
                self.write_back(*dst, Reg::R0);
            }
            Op::Helper { dst, helper, .. } => {
                self.arguments(op);
                self.asm.call(*helper);
                dst.iter().for_each(|dst| self.write_back(*dst, Reg::R0));
            }
            Op::Kfunc { dst, name, .. } => {
                self.arguments(op);
                self.asm.kfunc(name.as_str());
                dst.iter().for_each(|dst| self.write_back(*dst, Reg::R0));
            }
            Op::Call { dst, name, .. } => {
                self.arguments(op);
                if let Some(label) = self.functions.called.get(name.as_str()) {
                    self.asm.call_local(*label);
                }
                self.write_back(*dst, Reg::R0);
            }
        }
    }

    fn alu(&mut self, op: AluOp, bits: Bits, dst: Vreg, left: Vreg, right: Operand) {
        let to = self.read(dst);
        let right = self.read_operand(right);
        let in_the_way = right == to.into() && *self.place(left) != Location::Reg(to);
        let right = if in_the_way {
            debug_assert!(op.commutes(), "the allocator keeps these apart");
            self.read(left).into()
        } else {
            self.bring(to, left);
            right
        };
        self.asm.alu(alu(op), machine(bits), to, right);
    }

    /// 1, and 0 unless the condition jumps over it.
    fn compare(&mut self, condition: Condition, bits: Bits, dst: Vreg, left: Vreg, right: Operand) {
        let left = self.read(left);
        let right = self.read_operand(right);
        let to = self.read(dst);
        let done = self.asm.label();
        self.asm.mov(to, 1);
        self.asm.branch(cond(condition), machine(bits), left, right, done);
        self.asm.mov(to, 0);
        self.asm.bind(done);
    }

    fn extend(&mut self, dst: Vreg, src: Vreg, width: Width, signed: bool) {
        let to = self.read(dst);
        if width == Width::B4 && !signed {
            let from = self.read(src);
            self.asm.mov32(to, from);
        } else {
            self.bring(to, src);
            self.extend_in_place(to, width, signed, false);
        }
    }

    /// Extends the low bytes of a register; a load has put zeros above them already. (Sign-extending moves and loads exist
    /// from Linux 6.6 on only.)
    fn extend_in_place(&mut self, reg: Reg, width: Width, signed: bool, zeros: bool) {
        let unused = 64 - width.bytes().cast_signed() * 8;
        match (signed, width) {
            (_, Width::B8) => {}
            (true, _) => {
                self.asm
                    .lsh(reg, unused)
                    .alu(Alu::Arsh, Machine::W64, reg, unused);
            }
            (false, _) if zeros => {}
            (false, Width::B4) => {
                self.asm.mov32(reg, reg);
            }
            (false, Width::B1) => {
                self.asm.and(reg, 0xff);
            }
            (false, Width::B2) => {
                self.asm.and(reg, 0xffff);
            }
        }
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        width: Width,
        (base, offset): (Vreg, i16),
        value: Vreg,
        old: Option<Vreg>,
    ) {
        let (base, offset) = self.reach(base, offset);
        let Some(dst) = old else {
            let value = self.read(value);
            self.asm.atomic(plain(op), size(width), base, offset, value);
            return;
        };
        let to = self.read(dst);
        self.bring(to, value);
        self.asm.atomic(fetching(op), size(width), base, offset, to);
    }

    /// Puts the arguments of a call into registers 1 to 5: first what moves between registers, then the rest.
    fn arguments(&mut self, op: &Op) {
        let mut between = Vec::new();
        let mut rest = Vec::new();
        for (arg, to) in arguments(op).iter().zip(ARGUMENTS) {
            match arg {
                Operand::Reg(v) => match *self.place(*v) {
                    Location::Reg(from) => between.push((to, from)),
                    _ => rest.push((to, *arg)),
                },
                Operand::Imm(_) => rest.push((to, *arg)),
            }
        }
        for (to, from) in moves::sequence(between, Reg::R0) {
            self.asm.mov(to, from);
        }
        for (to, arg) in rest {
            match arg {
                Operand::Reg(v) => self.bring(to, v),
                Operand::Imm(n) => {
                    self.asm.constant(to, n.cast_unsigned());
                }
            }
        }
    }

    fn end(&mut self, end: &End, next: Option<BlockId>) {
        match *end {
            End::Jump(to) => self.jump(to, next),
            End::Exit(value) => {
                match value {
                    Operand::Reg(v) => self.bring(Reg::R0, v),
                    Operand::Imm(n) => {
                        self.asm.constant(Reg::R0, n.cast_unsigned());
                    }
                }
                self.asm.exit();
            }
            End::Branch {
                condition,
                bits,
                left,
                right,
                then,
                otherwise,
            } => {
                let left = self.read(left);
                let right = self.read_operand(right);
                let (condition, then, otherwise) = match condition.negated() {
                    Some(negated) if next == Some(then) => (negated, otherwise, then),
                    _ => (condition, then, otherwise),
                };
                let label = self.label(then);
                self.asm
                    .branch(cond(condition), machine(bits), left, right, label);
                self.jump(otherwise, next);
            }
        }
    }

    fn jump(&mut self, to: BlockId, next: Option<BlockId>) {
        if next != Some(to) {
            let label = self.label(to);
            self.asm.jump(label);
        }
    }
}

fn size(width: Width) -> Size {
    match width {
        Width::B1 => Size::B,
        Width::B2 => Size::H,
        Width::B4 => Size::W,
        Width::B8 => Size::DW,
    }
}

fn machine(bits: Bits) -> Machine {
    match bits {
        Bits::B32 => Machine::W32,
        Bits::B64 => Machine::W64,
    }
}

fn alu(op: AluOp) -> Alu {
    match op {
        AluOp::Add => Alu::Add,
        AluOp::Sub => Alu::Sub,
        AluOp::Mul => Alu::Mul,
        AluOp::Div => Alu::Div,
        AluOp::Mod => Alu::Mod,
        AluOp::And => Alu::And,
        AluOp::Or => Alu::Or,
        AluOp::Xor => Alu::Xor,
        AluOp::ShiftLeft => Alu::Lsh,
        AluOp::ShiftRight => Alu::Rsh,
        AluOp::ShiftRightSigned => Alu::Arsh,
    }
}

fn cond(condition: Condition) -> Cond {
    match condition {
        Condition::Equal => Cond::Eq,
        Condition::NotEqual => Cond::Ne,
        Condition::Less => Cond::Lt,
        Condition::LessEqual => Cond::Le,
        Condition::Greater => Cond::Gt,
        Condition::GreaterEqual => Cond::Ge,
        Condition::SignedLess => Cond::Slt,
        Condition::SignedLessEqual => Cond::Sle,
        Condition::SignedGreater => Cond::Sgt,
        Condition::SignedGreaterEqual => Cond::Sge,
        Condition::AnyBit => Cond::Set,
    }
}

fn plain(op: AtomicOp) -> Atomic {
    match op {
        AtomicOp::Add => Atomic::Add,
        AtomicOp::And => Atomic::And,
        AtomicOp::Or => Atomic::Or,
        AtomicOp::Xor => Atomic::Xor,
        AtomicOp::Exchange => Atomic::Xchg,
    }
}

fn fetching(op: AtomicOp) -> Atomic {
    match op {
        AtomicOp::Add => Atomic::FetchAdd,
        AtomicOp::And => Atomic::FetchAnd,
        AtomicOp::Or => Atomic::FetchOr,
        AtomicOp::Xor => Atomic::FetchXor,
        AtomicOp::Exchange => Atomic::Xchg,
    }
}
