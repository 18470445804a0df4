//! Arbitrary expressions over context fields and kernel memory: what generated code records equals what Rust computes directly.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use kestrel_bpf::helper;
use kestrel_bpf::interp::Space as Memory;
use kestrel_compiler::check::tree::*;
use proptest::prelude::*;
use support::run::{Bench, Seen};
use support::tree::*;

const WORDS: usize = 6;
const KERNEL: u64 = 0xffff_8880_1000_0000;

/// Inputs of expressions: context words, and the same number of words in kernel memory.
#[derive(Clone, Debug)]
struct World {
    context: [u64; WORDS],
    memory: [u64; WORDS],
}

impl World {
    /// `size` bytes at `offset` of the words, extended.
    fn read(words: &[u64; WORDS], offset: usize, size: u8, signed: bool) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut value = [0; 8];
        value[..size.into()].copy_from_slice(&bytes[offset..offset + usize::from(size)]);
        extend(u64::from_le_bytes(value), size, signed)
    }

    /// The value of an expression, by the definitions of the checked tree.
    fn eval(&self, e: &Expr) -> u64 {
        match &e.kind {
            ExprKind::Constant(n) => *n,
            ExprKind::Load {
                offset,
                size,
                signed,
                access,
                ..
            } => match access {
                Access::Context => Self::read(&self.context, *offset as usize, *size, *signed),
                _ => Self::read(&self.memory, *offset as usize, *size, *signed),
            },
            ExprKind::BitField {
                value,
                shift,
                bits,
                signed,
            } => {
                let mask = u64::MAX >> (64 - bits);
                let field = self.eval(value) >> shift & mask;
                let negative = *signed && field >> (bits - 1) == 1;
                if negative { field | !mask } else { field }
            }
            ExprKind::Intrinsic(_) => 1200 << 32 | 1234,
            ExprKind::Unary { op, value } => {
                let v = self.eval(value);
                match op {
                    UnaryOp::Negate => v.wrapping_neg(),
                    UnaryOp::BitNot => !v,
                    UnaryOp::Not => (v == 0).into(),
                }
            }
            ExprKind::Binary {
                op,
                signed,
                left,
                right,
            } => arithmetic(*op, *signed, self.eval(left), self.eval(right)),
            ExprKind::Compare {
                op,
                signed,
                left,
                right,
            } => {
                let (l, r) = (self.eval(left), self.eval(right));
                let order = if *signed {
                    (l as i64).cmp(&(r as i64))
                } else {
                    l.cmp(&r)
                };
                let holds = match op {
                    CompareOp::Equal => order.is_eq(),
                    CompareOp::NotEqual => order.is_ne(),
                    CompareOp::Less => order.is_lt(),
                    CompareOp::LessEqual => order.is_le(),
                    CompareOp::Greater => order.is_gt(),
                    CompareOp::GreaterEqual => order.is_ge(),
                };
                holds.into()
            }
            ExprKind::Logic { and, left, right } => {
                let (l, r) = (self.eval(left) != 0, self.eval(right) != 0);
                if *and { l && r } else { l || r }.into()
            }
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => match (self.eval(condition), then) {
                (0, _) => self.eval(otherwise),
                (_, Some(then)) => self.eval(then),
                (value, None) => value,
            },
            ExprKind::Convert { value, size, signed } => extend(self.eval(value), *size, *signed),
            other => panic!("not generated: {other:?}"),
        }
    }
}

fn extend(value: u64, size: u8, signed: bool) -> u64 {
    match (size, signed) {
        (1, false) => value as u8 as u64,
        (2, false) => value as u16 as u64,
        (4, false) => value as u32 as u64,
        (1, true) => value as i8 as u64,
        (2, true) => value as i16 as u64,
        (4, true) => value as i32 as u64,
        _ => value,
    }
}

fn arithmetic(op: BinaryOp, signed: bool, l: u64, r: u64) -> u64 {
    let (sl, sr) = (l as i64, r as i64);
    match op {
        BinaryOp::Add => l.wrapping_add(r),
        BinaryOp::Subtract => l.wrapping_sub(r),
        BinaryOp::Multiply => l.wrapping_mul(r),
        BinaryOp::Divide if r == 0 => 0,
        BinaryOp::Modulo if r == 0 => l,
        BinaryOp::Divide if signed => sl.wrapping_div(sr) as u64,
        BinaryOp::Modulo if signed => sl.wrapping_rem(sr) as u64,
        BinaryOp::Divide => l / r,
        BinaryOp::Modulo => l % r,
        BinaryOp::ShiftLeft => l.wrapping_shl(r as u32),
        BinaryOp::ShiftRight if signed => sl.wrapping_shr(r as u32) as u64,
        BinaryOp::ShiftRight => l.wrapping_shr(r as u32),
        BinaryOp::And => l & r,
        BinaryOp::Or => l | r,
        BinaryOp::Xor => l ^ r,
    }
}

/// Numbers that tend to break things, and others.
fn interesting() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => prop::sample::select(vec![
            0, 1, 2, 7, 8, 63, 64, 255, 256, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000,
            i64::MAX as u64, i64::MIN as u64, u64::MAX, u64::MAX - 1, -128i64 as u64, -4096i64 as u64,
        ]),
        1 => any::<u64>(),
    ]
}

fn leaf() -> impl Strategy<Value = Expr> {
    let size = || prop::sample::select(vec![1u8, 2, 4, 8]);
    let place = || (0..WORDS, size(), any::<bool>());
    prop_oneof![
        interesting().prop_map(num),
        place().prop_map(|(word, size, signed)| load(ctx(), word as i32 * 8, size, signed, Access::Context)),
        place().prop_map(|(word, size, signed)| load(
            num(KERNEL),
            word as i32 * 8,
            size,
            signed,
            Access::Kernel
        )),
        Just(get(Intrinsic::fixed(helper::GET_CURRENT_PID_TGID))),
    ]
}

fn expression() -> impl Strategy<Value = Expr> {
    leaf().prop_recursive(5, 40, 3, |inner| {
        let binary_op = prop::sample::select(vec![
            BinaryOp::Add,
            BinaryOp::Subtract,
            BinaryOp::Multiply,
            BinaryOp::Divide,
            BinaryOp::Modulo,
            BinaryOp::ShiftLeft,
            BinaryOp::ShiftRight,
            BinaryOp::And,
            BinaryOp::Or,
            BinaryOp::Xor,
        ]);
        let compare_op = prop::sample::select(vec![
            CompareOp::Equal,
            CompareOp::NotEqual,
            CompareOp::Less,
            CompareOp::LessEqual,
            CompareOp::Greater,
            CompareOp::GreaterEqual,
        ]);
        let unary_op = prop::sample::select(vec![UnaryOp::Negate, UnaryOp::BitNot, UnaryOp::Not]);
        let two = || (inner.clone(), inner.clone());
        prop_oneof![
            4 => (binary_op, any::<bool>(), two()).prop_map(|(op, s, (l, r))| signed_binary(op, s, l, r)),
            3 => (compare_op, any::<bool>(), two()).prop_map(|(op, s, (l, r))| compare(op, s, l, r)),
            1 => (unary_op, inner.clone()).prop_map(|(op, value)| expr(ExprKind::Unary { op, value: Box::new(value) })),
            2 => (any::<bool>(), two()).prop_map(|(both, (l, r))| if both { and(l, r) } else { or(l, r) }),
            1 => (inner.clone(), prop::option::of(inner.clone()), inner.clone()).prop_map(|(c, t, o)| {
                expr(ExprKind::Ternary {
                    condition: Box::new(c),
                    then: t.map(Box::new),
                    otherwise: Box::new(o),
                })
            }),
            1 => (inner.clone(), prop::sample::select(vec![1u8, 2, 4]), any::<bool>()).prop_map(|(v, size, signed)| {
                expr(ExprKind::Convert { value: Box::new(v), size, signed })
            }),
            1 => (inner.clone(), 1u8..=64, any::<bool>(), 0u8..64).prop_map(|(v, bits, signed, shift)| {
                let shift = shift.min(64 - bits);
                expr(ExprKind::BitField { value: Box::new(v), shift, bits, signed })
            }),
        ]
    })
}

fn world() -> impl Strategy<Value = World> {
    let words = || prop::array::uniform6(interesting());
    (words(), words()).prop_map(|(context, memory)| World { context, memory })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn generated_code_computes_what_rust_computes(
        predicate in prop::option::of(expression()),
        fields in prop::collection::vec((expression(), prop::sample::select(vec![1u8, 2, 4, 8]), any::<bool>()), 1..6),
        world in world(),
    ) {
        let names = ["a", "b", "c", "d", "e", "f"];
        let body = names.iter().zip(&fields).map(|(name, (value, size, signed))| {
            (*name, int(*size, *signed), value.clone())
        });
        let mut bench = Bench::new(&probe(predicate.clone(), vec![record(body.collect())]), &context());
        let memory: Vec<u8> = world.memory.iter().flat_map(|w| w.to_le_bytes()).collect();
        bench.machine.add_memory(Memory::Kernel, KERNEL, &memory);
        let rows = bench.run(&world.context).rows();
        let taken = predicate.is_none_or(|p| world.eval(&p) != 0);
        prop_assert_eq!(rows.len(), usize::from(taken));
        for row in rows {
            for ((_, seen), (value, size, signed)) in row.fields.iter().zip(&fields) {
                let stored = extend(world.eval(value), *size, *signed);
                let expected = if *signed { i128::from(stored as i64) } else { i128::from(stored) };
                prop_assert_eq!(seen, &Seen::Number(expected));
            }
        }
    }
}
