//! The operations of the intermediate code, and the registers that each reads and writes. The instructions for them are generated elsewhere.

use super::{Slot, Vreg};
use kestrel_bpf::code::MapRef;
use kestrel_bpf::helper::{self, Helper};

/// Size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// 1 byte.
    B1,
    /// 2 bytes.
    B2,
    /// 4 bytes.
    B4,
    /// 8 bytes.
    B8,
}

impl Width {
    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Self::B1 => 1,
            Self::B2 => 2,
            Self::B4 => 4,
            Self::B8 => 8,
        }
    }

    /// The width of an access of that many bytes, if there is one.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Some(match bytes {
            1 => Self::B1,
            2 => Self::B2,
            4 => Self::B4,
            8 => Self::B8,
            _ => return None,
        })
    }
}

/// Width of an operation, in low bits; 32-bit results are zero-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bits {
    /// 32.
    B32,
    /// 64.
    B64,
}

/// A right operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Vreg),
    /// A number; those beyond 32 signed bits are moved to registers by a pass.
    Imm(i64),
}

impl Operand {
    /// The register, if it is one.
    pub fn vreg(self) -> Option<Vreg> {
        match self {
            Self::Reg(v) => Some(v),
            Self::Imm(_) => None,
        }
    }
}

impl Operand {
    /// The register, if it is one, to be changed.
    pub(crate) fn vreg_mut(&mut self) -> Option<&mut Vreg> {
        match self {
            Self::Reg(v) => Some(v),
            Self::Imm(_) => None,
        }
    }
}

impl From<Vreg> for Operand {
    fn from(v: Vreg) -> Self {
        Self::Reg(v)
    }
}

impl From<i64> for Operand {
    fn from(v: i64) -> Self {
        Self::Imm(v)
    }
}

impl From<u32> for Operand {
    fn from(v: u32) -> Self {
        Self::Imm(i64::from(v))
    }
}

impl From<i32> for Operand {
    fn from(v: i32) -> Self {
        Self::Imm(i64::from(v))
    }
}

/// Arithmetic; division and remainder are unsigned and give 0 and the dividend for a divisor of 0, as in BPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its operation")]
pub enum AluOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    ShiftLeft,
    /// Fills with zeros.
    ShiftRight,
    /// Fills with the sign.
    ShiftRightSigned,
}

impl AluOp {
    /// Whether the operands may change places.
    pub(crate) fn commutes(self) -> bool {
        matches!(self, Self::Add | Self::Mul | Self::And | Self::Or | Self::Xor)
    }

    /// Result of the operation: the definition that folding and tests share with the machine.
    pub fn apply(self, bits: Bits, left: u64, right: u64) -> u64 {
        match bits {
            Bits::B64 => match self {
                Self::Add => left.wrapping_add(right),
                Self::Sub => left.wrapping_sub(right),
                Self::Mul => left.wrapping_mul(right),
                Self::Div => left.checked_div(right).unwrap_or(0),
                Self::Mod => left.checked_rem(right).unwrap_or(left),
                Self::And => left & right,
                Self::Or => left | right,
                Self::Xor => left ^ right,
                Self::ShiftLeft => left << (right & 63),
                Self::ShiftRight => left >> (right & 63),
                Self::ShiftRightSigned => (left.cast_signed() >> (right & 63)).cast_unsigned(),
            },
            Bits::B32 => {
                let (l, r) = (left as u32, right as u32);
                u64::from(match self {
                    Self::Add => l.wrapping_add(r),
                    Self::Sub => l.wrapping_sub(r),
                    Self::Mul => l.wrapping_mul(r),
                    Self::Div => l.checked_div(r).unwrap_or(0),
                    Self::Mod => l.checked_rem(r).unwrap_or(l),
                    Self::And => l & r,
                    Self::Or => l | r,
                    Self::Xor => l ^ r,
                    Self::ShiftLeft => l << (r & 31),
                    Self::ShiftRight => l >> (r & 31),
                    Self::ShiftRightSigned => (l.cast_signed() >> (r & 31)).cast_unsigned(),
                })
            }
        }
    }
}

/// Comparison; `Signed…` where so named, unsigned otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its comparison")]
pub enum Condition {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    SignedLess,
    SignedLessEqual,
    SignedGreater,
    SignedGreaterEqual,
    /// `left & right` is not 0.
    AnyBit,
}

impl Condition {
    /// Whether it holds.
    pub fn holds(self, bits: Bits, left: u64, right: u64) -> bool {
        let (l, r, sl, sr) = match bits {
            Bits::B64 => (left, right, left.cast_signed(), right.cast_signed()),
            Bits::B32 => {
                let (l, r) = (left as u32, right as u32);
                (
                    u64::from(l),
                    u64::from(r),
                    i64::from(l.cast_signed()),
                    i64::from(r.cast_signed()),
                )
            }
        };
        match self {
            Self::Equal => l == r,
            Self::NotEqual => l != r,
            Self::Less => l < r,
            Self::LessEqual => l <= r,
            Self::Greater => l > r,
            Self::GreaterEqual => l >= r,
            Self::SignedLess => sl < sr,
            Self::SignedLessEqual => sl <= sr,
            Self::SignedGreater => sl > sr,
            Self::SignedGreaterEqual => sl >= sr,
            Self::AnyBit => l & r != 0,
        }
    }

    /// The opposite condition; there is none for [`Condition::AnyBit`].
    pub fn negated(self) -> Option<Self> {
        Some(match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterEqual,
            Self::LessEqual => Self::Greater,
            Self::Greater => Self::LessEqual,
            Self::GreaterEqual => Self::Less,
            Self::SignedLess => Self::SignedGreaterEqual,
            Self::SignedLessEqual => Self::SignedGreater,
            Self::SignedGreater => Self::SignedLessEqual,
            Self::SignedGreaterEqual => Self::SignedLess,
            Self::AnyBit => return None,
        })
    }

    /// The comparison with its operands exchanged.
    pub fn swapped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            Self::SignedLess => Self::SignedGreater,
            Self::SignedLessEqual => Self::SignedGreaterEqual,
            Self::SignedGreater => Self::SignedLess,
            Self::SignedGreaterEqual => Self::SignedLessEqual,
            same => same,
        }
    }
}

/// Atomic read-modify-write operations other than compare-and-exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its operation")]
pub enum AtomicOp {
    Add,
    And,
    Or,
    Xor,
    /// Always gives the old value.
    Exchange,
}

/// Helpers without any effect but their result.
const PURE: &[Helper] = &[
    helper::KTIME_GET_NS,
    helper::GET_PRANDOM_U32,
    helper::GET_SMP_PROCESSOR_ID,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_UID_GID,
    helper::GET_CURRENT_TASK,
    helper::GET_CURRENT_TASK_BTF,
    helper::GET_CURRENT_CGROUP_ID,
    helper::GET_FUNC_IP,
    helper::GET_ATTACH_COOKIE,
    helper::MAP_LOOKUP_ELEM,
];

/// An operation of the intermediate representation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields speak for themselves")]
pub enum Op {
    /// A constant.
    Const { dst: Vreg, value: i64 },
    /// A copy.
    Copy { dst: Vreg, src: Vreg },
    /// Arithmetic.
    Alu {
        op: AluOp,
        bits: Bits,
        dst: Vreg,
        left: Vreg,
        right: Operand,
    },
    /// 1 if the comparison holds, else 0; it becomes a branch.
    Compare {
        condition: Condition,
        bits: Bits,
        dst: Vreg,
        left: Vreg,
        right: Operand,
    },
    /// The low `width` with its sign or zeros above.
    Extend {
        dst: Vreg,
        src: Vreg,
        width: Width,
        signed: bool,
    },
    /// The low `width` with its bytes reversed, zeros above.
    SwapBytes { dst: Vreg, src: Vreg, width: Width },
    /// Reads memory; sign-extended where `signed`, else zero-extended.
    Load {
        dst: Vreg,
        width: Width,
        signed: bool,
        base: Vreg,
        offset: i16,
    },
    /// Reads 8 bytes and drops them, so that their cache line is at hand when it is written later.
    Touch { dst: Vreg, base: Vreg, offset: i16 },
    /// Writes memory.
    Store {
        width: Width,
        base: Vreg,
        offset: i16,
        value: Operand,
    },
    /// Reads, changes and writes 4 or 8 bytes at once; `old` gets what was there.
    Atomic {
        op: AtomicOp,
        width: Width,
        base: Vreg,
        offset: i16,
        value: Vreg,
        old: Option<Vreg>,
    },
    /// Writes `new` if `expected` is there; `dst` gets what was there.
    CompareExchange {
        dst: Vreg,
        width: Width,
        base: Vreg,
        offset: i16,
        expected: Vreg,
        new: Vreg,
    },
    /// The address of a frame object plus `offset`.
    SlotAddress { dst: Vreg, slot: Slot, offset: u32 },
    /// The map itself, as helpers take it.
    Map { dst: Vreg, map: MapRef },
    /// An address in the first value of an array map.
    MapValue { dst: Vreg, map: MapRef, offset: u32 },
    /// The variable of the kernel with this number in its types, as `this_cpu_ptr` takes it.
    KernelVariable { dst: Vreg, id: u32 },
    /// The function of this number among those that helpers call back.
    Callback { dst: Vreg, number: u32 },
    /// A call of a BPF helper, at most five arguments.
    Helper {
        dst: Option<Vreg>,
        helper: Helper,
        args: Vec<Operand>,
    },
    /// A call of a kernel function, at most five arguments.
    Kfunc {
        dst: Option<Vreg>,
        name: String,
        args: Vec<Operand>,
    },
    /// A call of a function of the program's own by name ([`super::Function::called`]), at most five arguments, all numbers.
    Call {
        dst: Vreg,
        name: String,
        args: Vec<Operand>,
    },
}

/// Registers that an operation reads at most: the arguments of a call.
const MAX_READ: usize = 5;

impl Op {
    /// The register it writes.
    pub fn def(&self) -> Option<Vreg> {
        match self {
            Self::Const { dst, .. }
            | Self::Copy { dst, .. }
            | Self::Alu { dst, .. }
            | Self::Compare { dst, .. }
            | Self::Extend { dst, .. }
            | Self::SwapBytes { dst, .. }
            | Self::Load { dst, .. }
            | Self::Touch { dst, .. }
            | Self::CompareExchange { dst, .. }
            | Self::SlotAddress { dst, .. }
            | Self::Map { dst, .. }
            | Self::KernelVariable { dst, .. }
            | Self::Callback { dst, .. }
            | Self::Call { dst, .. }
            | Self::MapValue { dst, .. } => Some(*dst),
            Self::Helper { dst, .. } | Self::Kfunc { dst, .. } | Self::Atomic { old: dst, .. } => *dst,
            Self::Store { .. } => None,
        }
    }

    /// The register it writes, to be changed.
    pub(crate) fn def_mut(&mut self) -> Option<&mut Vreg> {
        match self {
            Self::Const { dst, .. }
            | Self::Copy { dst, .. }
            | Self::Alu { dst, .. }
            | Self::Compare { dst, .. }
            | Self::Extend { dst, .. }
            | Self::SwapBytes { dst, .. }
            | Self::Load { dst, .. }
            | Self::Touch { dst, .. }
            | Self::CompareExchange { dst, .. }
            | Self::SlotAddress { dst, .. }
            | Self::Map { dst, .. }
            | Self::KernelVariable { dst, .. }
            | Self::Callback { dst, .. }
            | Self::Call { dst, .. }
            | Self::MapValue { dst, .. } => Some(dst),
            Self::Helper { dst, .. } | Self::Kfunc { dst, .. } | Self::Atomic { old: dst, .. } => {
                dst.as_mut()
            }
            Self::Store { .. } => None,
        }
    }

    /// The registers it reads.
    pub fn uses(&self) -> impl Iterator<Item = Vreg> + use<> {
        // Asked for every operation by every pass, so nothing is allocated.
        let mut uses = [None; MAX_READ];
        match self {
            Self::Const { .. }
            | Self::SlotAddress { .. }
            | Self::Map { .. }
            | Self::KernelVariable { .. }
            | Self::MapValue { .. }
            | Self::Callback { .. } => {}
            Self::Copy { src, .. }
            | Self::Extend { src, .. }
            | Self::SwapBytes { src, .. }
            | Self::Load { base: src, .. }
            | Self::Touch { base: src, .. } => uses[0] = Some(*src),
            Self::Alu { left, right, .. } | Self::Compare { left, right, .. } => {
                [uses[0], uses[1]] = [right.vreg(), Some(*left)];
            }
            Self::Store { base, value, .. } => [uses[0], uses[1]] = [value.vreg(), Some(*base)],
            Self::Atomic { base, value, .. } => [uses[0], uses[1]] = [Some(*base), Some(*value)],
            Self::CompareExchange {
                base, expected, new, ..
            } => [uses[0], uses[1], uses[2]] = [Some(*base), Some(*expected), Some(*new)],
            Self::Helper { args, .. } | Self::Kfunc { args, .. } | Self::Call { args, .. } => {
                for (to, arg) in uses.iter_mut().zip(args) {
                    *to = arg.vreg();
                }
            }
        }
        uses.into_iter().flatten()
    }

    /// Visits the registers it reads, to look or to change them.
    pub(crate) fn each_use(&mut self, visit: &mut dyn FnMut(&mut Vreg)) {
        let mut operand = |o: &mut Operand| {
            if let Operand::Reg(v) = o {
                visit(v);
            }
        };
        match self {
            Self::Const { .. }
            | Self::SlotAddress { .. }
            | Self::Map { .. }
            | Self::KernelVariable { .. }
            | Self::MapValue { .. }
            | Self::Callback { .. } => {}
            Self::Copy { src, .. } | Self::Extend { src, .. } | Self::SwapBytes { src, .. } => visit(src),
            Self::Alu { left, right, .. } | Self::Compare { left, right, .. } => {
                operand(right);
                visit(left);
            }
            Self::Load { base, .. } | Self::Touch { base, .. } => visit(base),
            Self::Store { base, value, .. } => {
                operand(value);
                visit(base);
            }
            Self::Atomic { base, value, .. } => {
                visit(base);
                visit(value);
            }
            Self::CompareExchange {
                base, expected, new, ..
            } => {
                visit(base);
                visit(expected);
                visit(new);
            }
            Self::Helper { args, .. } | Self::Kfunc { args, .. } | Self::Call { args, .. } => {
                args.iter_mut().for_each(operand);
            }
        }
    }

    /// Whether it may be left out when its result is not read.
    pub(crate) fn is_pure(&self) -> bool {
        match self {
            Self::Touch { .. }
            | Self::Store { .. }
            | Self::Atomic { .. }
            | Self::CompareExchange { .. }
            | Self::Kfunc { .. }
            | Self::Call { .. } => false,
            Self::Helper { helper, .. } => PURE.contains(helper),
            _ => true,
        }
    }

    /// Whether it is a call, which loses registers 0 to 5.
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Helper { .. } | Self::Kfunc { .. } | Self::Call { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `uses` and `each_use` visit the same registers in the same order, and `def` and `def_mut` give the same one.
    #[test]
    fn shared_and_mutable_visits_see_the_same_operands() {
        let (a, b, c, d) = (Vreg(1), Vreg(2), Vreg(3), Vreg(4));
        let args = vec![a.into(), Operand::Imm(7), b.into(), c.into(), d.into()];
        let ops = [
            Op::Const { dst: a, value: 1 },
            Op::Copy { dst: a, src: b },
            Op::Alu {
                op: AluOp::Sub,
                bits: Bits::B64,
                dst: a,
                left: b,
                right: c.into(),
            },
            Op::Load {
                dst: a,
                width: Width::B8,
                signed: false,
                base: b,
                offset: 0,
            },
            Op::Touch {
                dst: a,
                base: b,
                offset: 0,
            },
            Op::Store {
                width: Width::B8,
                base: a,
                offset: 0,
                value: b.into(),
            },
            Op::Atomic {
                op: AtomicOp::Add,
                width: Width::B8,
                base: a,
                offset: 0,
                value: b,
                old: Some(c),
            },
            Op::CompareExchange {
                dst: a,
                width: Width::B8,
                base: b,
                offset: 0,
                expected: c,
                new: d,
            },
            Op::Helper {
                dst: None,
                helper: helper::GET_CURRENT_PID_TGID,
                args: args.clone(),
            },
            Op::Kfunc {
                dst: Some(a),
                name: "some".to_owned(),
                args: args.clone(),
            },
            Op::Call {
                dst: a,
                name: "own".to_owned(),
                args,
            },
        ];
        for op in ops {
            let mut visited = Vec::new();
            op.clone().each_use(&mut |v| visited.push(*v));
            assert_eq!(op.uses().collect::<Vec<_>>(), visited, "{op}");
            assert_eq!(op.def(), op.clone().def_mut().copied(), "{op}");
        }
    }
}
