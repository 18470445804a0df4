//! Arbitrary intermediate code: what passes, registers, spills and emission make of it gives what the code itself says.

#![allow(clippy::expect_used, reason = "a test")]

use kestrel_bpf::interp::{Machine, MapKind as Kind};
use kestrel_compiler::codegen::generate;
use kestrel_compiler::ir::{
    AluOp, AtomicOp, Bits, Builder, Condition, End, Function, MapKind, MapSpec, Op, Operand, Slot, Vreg,
    Width, helper,
};
use proptest::prelude::*;
use std::collections::HashMap;

/// Registers that statements work on.
const POOL: usize = 14;
/// Words in the map's value.
const CELLS: usize = 4;
const CPU: u64 = 3;
const SLOT_WORDS: u32 = 3;

/// A piece of a program; registers are places in the pool.
#[derive(Clone, Debug)]
enum Piece {
    Alu(AluOp, Bits, usize, usize, Value),
    Compare(Condition, Bits, usize, usize, Value),
    Copy(usize, Value),
    Extend(usize, usize, Width, bool),
    Swap(usize, usize, Width),
    Call(usize),
    ToCell(usize, Width, Value),
    FromCell(usize, usize, Width, bool),
    ToSlot(u32, Value),
    FromSlot(usize, u32),
    Atomic(AtomicOp, Width, usize, usize, Option<usize>),
    Exchange(Width, usize, usize, usize, usize),
    If(Condition, Bits, usize, Value, Vec<Piece>, Vec<Piece>),
    Repeat(u8, Vec<Piece>),
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Register(usize),
    Number(i64),
}

struct Writer {
    b: Builder,
    pool: Vec<Vreg>,
    cells: Vreg,
    slot: Slot,
}

impl Writer {
    fn value(&self, value: Value) -> Operand {
        match value {
            Value::Register(at) => self.pool[at].into(),
            Value::Number(n) => n.into(),
        }
    }

    fn set(&mut self, to: usize, value: Vreg) {
        self.b.assign(self.pool[to], value);
    }

    fn write(&mut self, pieces: &[Piece]) {
        pieces.iter().for_each(|p| self.piece(p));
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Alu(op, bits, to, left, right) => {
                let right = self.value(*right);
                let result = self.b.alu(*op, *bits, self.pool[*left], right);
                self.set(*to, result);
            }
            Piece::Compare(condition, Bits::B64, to, left, right) => {
                let right = self.value(*right);
                let result = self.b.compare(*condition, self.pool[*left], right);
                self.set(*to, result);
            }
            Piece::Compare(condition, bits, to, left, right) => {
                // There is no other way to a comparison of 32 bits than a branch.
                let set = |n| vec![Piece::Copy(*to, Value::Number(n))];
                self.piece(&Piece::If(*condition, *bits, *left, *right, set(1), set(0)));
            }
            Piece::Copy(to, value) => {
                let value = self.value(*value);
                self.b.assign(self.pool[*to], value);
            }
            Piece::Extend(to, from, width, signed) => {
                let result = self.b.extend(self.pool[*from], *width, *signed);
                self.set(*to, result);
            }
            Piece::Swap(to, from, width) => {
                let result = self.b.swap_bytes(self.pool[*from], *width);
                self.set(*to, result);
            }
            Piece::Call(to) => {
                let result = self.b.helper(helper::GET_SMP_PROCESSOR_ID, &[]);
                self.set(*to, result);
            }
            Piece::ToCell(cell, width, value) => {
                let value = self.value(*value);
                self.b.store(*width, self.cells, *cell as i16 * 8, value);
            }
            Piece::FromCell(to, cell, width, signed) => {
                let at = self.b.add(self.cells, *cell as i64 * 8);
                let result = self.b.load_extended(*width, *signed, at, 0);
                self.set(*to, result);
            }
            Piece::ToSlot(word, value) => {
                let value = self.value(*value);
                let at = self.b.slot_address(self.slot, word * 8);
                self.b.store(Width::B8, at, 0, value);
            }
            Piece::FromSlot(to, word) => {
                let at = self.b.slot_address(self.slot, 0);
                let result = self.b.load(Width::B8, at, *word as i16 * 8);
                self.set(*to, result);
            }
            Piece::Atomic(op, width, cell, value, old) => {
                let result = self
                    .b
                    .fetch(*op, *width, self.cells, *cell as i16 * 8, self.pool[*value]);
                old.iter().for_each(|to| self.set(*to, result));
            }
            Piece::Exchange(width, to, cell, expected, new) => {
                let (expected, new) = (self.pool[*expected], self.pool[*new]);
                let result = self
                    .b
                    .compare_exchange(*width, self.cells, *cell as i16 * 8, expected, new);
                self.set(*to, result);
            }
            Piece::If(condition, bits, left, right, then, otherwise) => {
                let (yes, no, join) = (self.b.block(), self.b.cold_block(), self.b.block());
                let right = self.value(*right);
                self.b
                    .branch_on(*condition, *bits, self.pool[*left], right, yes, no);
                for (block, body) in [(yes, then), (no, otherwise)] {
                    self.b.switch_to(block);
                    self.write(body);
                    self.b.jump(join);
                }
                self.b.switch_to(join);
            }
            Piece::Repeat(times, body) => {
                let left = self.b.vreg();
                self.b.assign(left, i64::from(*times));
                let (head, out) = (self.b.block(), self.b.block());
                self.b.jump(head);
                self.b.switch_to(head);
                self.write(body);
                let less = self.b.sub(left, 1);
                self.b.assign(left, less);
                self.b.branch(Condition::NotEqual, left, 0, head, out);
                self.b.switch_to(out);
            }
        }
    }
}

/// A whole program: the pool comes from the context, the result is a hash of the pool.
fn function(pieces: &[Piece]) -> Function {
    let mut b = Builder::new();
    let map = b.map(MapSpec {
        name: "cells".to_owned(),
        kind: MapKind::Array,
        key: 4,
        value: CELLS as u32 * 8,
        entries: 1,
        flags: 0,
    });
    let context = b.context();
    let pool: Vec<Vreg> = (0..POOL).map(|_| b.vreg()).collect();
    for (at, v) in pool.iter().enumerate() {
        let word = b.load(Width::B8, context, at as i16 * 8);
        b.assign(*v, word);
    }
    let cells = b.map_value(map, 0);
    let slot = b.slot(SLOT_WORDS * 8, 8);
    let mut writer = Writer { b, pool, cells, slot };
    for word in 0..SLOT_WORDS {
        writer.piece(&Piece::ToSlot(word, Value::Number(word.into())));
    }
    writer.write(pieces);
    let mut hash = writer.b.constant(17);
    for v in writer.pool.clone() {
        let scaled = writer.b.mul(hash, 31);
        hash = writer.b.alu(AluOp::Xor, Bits::B64, scaled, v);
    }
    writer.b.exit(hash);
    writer.b.finish()
}

/// Runs intermediate code as it is written down.
struct Direct<'a> {
    registers: HashMap<Vreg, u64>,
    context: &'a [u64],
    cells: [u8; CELLS * 8],
    slot: [u8; SLOT_WORDS as usize * 8],
}

/// Addresses of the two kinds of memory.
const CELLS_AT: u64 = 0x1_0000_0000;
const SLOT_AT: u64 = 0x2_0000_0000;
const CONTEXT_AT: u64 = 0x3_0000_0000;

impl Direct<'_> {
    fn get(&self, v: Vreg) -> u64 {
        self.registers[&v]
    }

    fn operand(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Reg(v) => self.get(v),
            Operand::Imm(n) => n as u64,
        }
    }

    fn load(&self, address: u64, width: Width) -> u64 {
        let context: Vec<u8> = self.context.iter().flat_map(|w| w.to_le_bytes()).collect();
        let (bytes, at): (&[u8], u64) = match address >> 32 {
            1 => (&self.cells, CELLS_AT),
            2 => (&self.slot, SLOT_AT),
            _ => (&context, CONTEXT_AT),
        };
        let bytes = &bytes[(address - at) as usize..][..width.bytes() as usize];
        bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    fn store(&mut self, address: u64, width: Width, value: u64) {
        let (bytes, at): (&mut [u8], u64) = match address >> 32 {
            1 => (&mut self.cells, CELLS_AT),
            _ => (&mut self.slot, SLOT_AT),
        };
        let bytes = &mut bytes[(address - at) as usize..][..width.bytes() as usize];
        bytes.copy_from_slice(&value.to_le_bytes()[..width.bytes() as usize]);
    }

    fn step(&mut self, op: &Op) {
        let result = match op {
            Op::Const { value, .. } => *value as u64,
            Op::Copy { src, .. } => self.get(*src),
            Op::Alu {
                op,
                bits,
                left,
                right,
                ..
            } => op.apply(*bits, self.get(*left), self.operand(*right)),
            Op::Compare {
                condition,
                bits,
                left,
                right,
                ..
            } => condition
                .holds(*bits, self.get(*left), self.operand(*right))
                .into(),
            Op::Extend {
                src, width, signed, ..
            } => extend(self.get(*src), *width, *signed),
            Op::SwapBytes { src, width, .. } => match width {
                Width::B1 => self.get(*src) as u8 as u64,
                Width::B2 => (self.get(*src) as u16).swap_bytes().into(),
                Width::B4 => (self.get(*src) as u32).swap_bytes().into(),
                Width::B8 => self.get(*src).swap_bytes(),
            },
            Op::Load {
                width,
                signed,
                base,
                offset,
                ..
            } => {
                let raw = self.load(self.get(*base).wrapping_add(*offset as u64), *width);
                extend(raw, *width, *signed)
            }
            Op::Store {
                width,
                base,
                offset,
                value,
            } => {
                let value = self.operand(*value);
                self.store(self.get(*base).wrapping_add(*offset as u64), *width, value);
                return;
            }
            Op::Atomic {
                op,
                width,
                base,
                offset,
                value,
                ..
            } => {
                let address = self.get(*base).wrapping_add(*offset as u64);
                let (old, value) = (self.load(address, *width), self.get(*value));
                let new = match op {
                    AtomicOp::Add => old.wrapping_add(value),
                    AtomicOp::And => old & value,
                    AtomicOp::Or => old | value,
                    AtomicOp::Xor => old ^ value,
                    AtomicOp::Exchange => value,
                };
                self.store(address, *width, new);
                old
            }
            Op::CompareExchange {
                width,
                base,
                offset,
                expected,
                new,
                ..
            } => {
                let address = self.get(*base).wrapping_add(*offset as u64);
                let old = self.load(address, *width);
                if old == extend(self.get(*expected), *width, false) {
                    self.store(address, *width, self.get(*new));
                }
                old
            }
            Op::SlotAddress { offset, .. } => SLOT_AT + u64::from(*offset),
            Op::MapValue { offset, .. } => CELLS_AT + u64::from(*offset),
            Op::Helper { .. } => CPU,
            other => panic!("not generated: {other}"),
        };
        if let Some(dst) = op.def() {
            self.registers.insert(dst, result);
        }
    }

    fn run(&mut self, function: &Function) -> u64 {
        if let Some(context) = function.context {
            self.registers.insert(context, CONTEXT_AT);
        }
        let mut at = kestrel_compiler::ir::BlockId(0);
        loop {
            let block = function.block(at);
            block.insts.iter().for_each(|inst| self.step(&inst.op));
            match block.end.as_ref().unwrap_or(&End::Exit(Operand::Imm(0))) {
                End::Jump(to) => at = *to,
                End::Branch {
                    condition,
                    bits,
                    left,
                    right,
                    then,
                    otherwise,
                } => {
                    let holds = condition.holds(*bits, self.get(*left), self.operand(*right));
                    at = if holds { *then } else { *otherwise };
                }
                End::Exit(value) => return self.operand(*value),
            }
        }
    }
}

fn extend(value: u64, width: Width, signed: bool) -> u64 {
    match (width, signed) {
        (Width::B1, false) => value as u8 as u64,
        (Width::B2, false) => value as u16 as u64,
        (Width::B4, false) => value as u32 as u64,
        (Width::B1, true) => value as i8 as u64,
        (Width::B2, true) => value as i16 as u64,
        (Width::B4, true) => value as i32 as u64,
        (Width::B8, _) => value,
    }
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        prop::sample::select(vec![
            0,
            1,
            -1,
            2,
            8,
            31,
            63,
            64,
            255,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            i64::MIN,
            -0x8000_0001,
        ]),
        any::<i64>(),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let reg = || 0..POOL;
    let cell = || 0..CELLS;
    let value = move || prop_oneof![reg().prop_map(Value::Register), number().prop_map(Value::Number)];
    let bits = || prop::sample::select(vec![Bits::B32, Bits::B64]);
    let width = || prop::sample::select(vec![Width::B1, Width::B2, Width::B4, Width::B8]);
    let wide = || prop::sample::select(vec![Width::B4, Width::B8]);
    let condition = || {
        prop::sample::select(vec![
            Condition::Equal,
            Condition::NotEqual,
            Condition::Less,
            Condition::LessEqual,
            Condition::Greater,
            Condition::GreaterEqual,
            Condition::SignedLess,
            Condition::SignedLessEqual,
            Condition::SignedGreater,
            Condition::SignedGreaterEqual,
            Condition::AnyBit,
        ])
    };
    let alu = prop::sample::select(vec![
        AluOp::Add,
        AluOp::Sub,
        AluOp::Mul,
        AluOp::Div,
        AluOp::Mod,
        AluOp::And,
        AluOp::Or,
        AluOp::Xor,
        AluOp::ShiftLeft,
        AluOp::ShiftRight,
        AluOp::ShiftRightSigned,
    ]);
    let atomic = prop::sample::select(vec![
        AtomicOp::Add,
        AtomicOp::And,
        AtomicOp::Or,
        AtomicOp::Xor,
        AtomicOp::Exchange,
    ]);
    let leaf = prop_oneof![
        6 => (alu, bits(), reg(), reg(), value()).prop_map(|(a, b, c, d, e)| Piece::Alu(a, b, c, d, e)),
        2 => (condition(), bits(), reg(), reg(), value()).prop_map(|(a, b, c, d, e)| Piece::Compare(a, b, c, d, e)),
        2 => (reg(), value()).prop_map(|(a, b)| Piece::Copy(a, b)),
        1 => (reg(), reg(), width(), any::<bool>()).prop_map(|(a, b, c, d)| Piece::Extend(a, b, c, d)),
        1 => (reg(), reg(), width()).prop_map(|(a, b, c)| Piece::Swap(a, b, c)),
        2 => reg().prop_map(Piece::Call),
        2 => (cell(), width(), value()).prop_map(|(a, b, c)| Piece::ToCell(a, b, c)),
        2 => (reg(), cell(), width(), any::<bool>()).prop_map(|(a, b, c, d)| Piece::FromCell(a, b, c, d)),
        1 => (0..SLOT_WORDS, value()).prop_map(|(a, b)| Piece::ToSlot(a, b)),
        1 => (reg(), 0..SLOT_WORDS).prop_map(|(a, b)| Piece::FromSlot(a, b)),
        1 => (atomic, wide(), cell(), reg(), prop::option::of(reg()))
            .prop_map(|(a, b, c, d, e)| Piece::Atomic(a, b, c, d, e)),
        1 => (wide(), reg(), cell(), reg(), reg()).prop_map(|(a, b, c, d, e)| Piece::Exchange(a, b, c, d, e)),
    ];
    let body = leaf.prop_recursive(3, 40, 6, move |inner| {
        let many = || prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            3 => inner.clone(),
            2 => (condition(), bits(), reg(), value(), many(), many())
                .prop_map(|(a, b, c, d, e, f)| Piece::If(a, b, c, d, e, f)),
            1 => (1u8..4, many()).prop_map(|(times, body)| Piece::Repeat(times, body)),
        ]
    });
    prop::collection::vec(body, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn generated_code_computes_the_value_of_its_function(pieces in pieces(), context in prop::collection::vec(number(), POOL)) {
        let context: Vec<u64> = context.into_iter().map(|n| n as u64).collect();
        let function = function(&pieces);
        let mut direct = Direct {
            registers: HashMap::new(),
            context: &context,
            cells: [0; CELLS * 8],
            slot: [0; SLOT_WORDS as usize * 8],
        };
        let expected = direct.run(&function);

        let generated = generate(&function).expect("code");
        let mut machine = Machine::new();
        machine.environment.cpu = CPU as u32;
        let cells = machine.add_map(Kind::Array { entries: 1 }, 4, CELLS as u32 * 8);
        let bytes: Vec<u8> = context.iter().flat_map(|w| w.to_le_bytes()).collect();
        let result = machine.run(&generated.code, &bytes);
        prop_assert_eq!(result, Ok(expected), "{}\n{}", generated.function, kestrel_bpf::text::listing(&generated.code, &[]));
        if let Some(value) = machine.value(cells, &[0; 4], 0) {
            prop_assert_eq!(&value[..], &direct.cells[..]);
        }
    }
}
