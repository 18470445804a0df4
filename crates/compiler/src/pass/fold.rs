//! Constant folding: computes what is known when compiling, follows copies, and moves constant offsets into memory accesses.

use super::facts::Facts;
use crate::ir::{AluOp, Bits, End, Function, Op, Operand, Vreg, Width};

/// Folds until nothing changes (each round lets the next one see further; chains are short).
pub(super) fn run(function: &mut Function) {
    for _ in 0..16 {
        let facts = Facts::of(function);
        let mut changed = false;
        for block in &mut function.blocks {
            for inst in &mut block.insts {
                if let Op::Helper { args, .. } | Op::Kfunc { args, .. } | Op::Call { args, .. } = &mut inst.op
                {
                    changed |= follow_arguments(&facts, args);
                    continue;
                }
                let new = simplify(&facts, follow_copies(&facts, inst.op.clone()));
                changed |= new != inst.op;
                inst.op = new;
            }
            if let Some(end) = &mut block.end {
                let new = fold_end(&facts, end.clone());
                changed |= new != *end;
                *end = new;
            }
        }
        if !changed {
            break;
        }
    }
}

/// Reads originals instead of copies, and numbers where a number may stand.
fn follow_copies(facts: &Facts, mut op: Op) -> Op {
    op.each_use(&mut |v| *v = facts.original(*v));
    match &mut op {
        Op::Alu { right, .. } | Op::Compare { right, .. } => *right = facts.operand(*right),
        Op::Store { value, .. } => *value = facts.operand(*value),
        _ => {}
    }
    op
}

/// Replaces known values in the arguments of a call; says whether that changed anything.
fn follow_arguments(facts: &Facts, args: &mut [Operand]) -> bool {
    let mut changed = false;
    for arg in args {
        let new = match *arg {
            Operand::Reg(v) => facts.operand(Operand::Reg(facts.original(v))),
            number => number,
        };
        changed |= new != *arg;
        *arg = new;
    }
    changed
}

/// Replaces an operation by a cheaper one with the same result, where its operands are known.
fn simplify(facts: &Facts, op: Op) -> Op {
    match op {
        Op::Copy { dst, src } => match facts.constant(src) {
            Some(value) => Op::Const { dst, value },
            None => op,
        },
        Op::Alu {
            op: alu,
            bits,
            dst,
            left,
            right,
        } => simplify_alu(facts, alu, bits, dst, left, right),
        Op::Compare {
            condition,
            bits,
            dst,
            left,
            right,
        } => match (facts.constant(left), right) {
            (Some(l), Operand::Imm(r)) => Op::Const {
                dst,
                value: condition.holds(bits, l.cast_unsigned(), r.cast_unsigned()).into(),
            },
            // An instruction takes a number only as its right operand.
            (Some(l), Operand::Reg(r)) => Op::Compare {
                condition: condition.swapped(),
                bits,
                dst,
                left: r,
                right: Operand::Imm(l),
            },
            _ => op,
        },
        Op::Extend {
            dst,
            src,
            width,
            signed,
        } => match facts.constant(src) {
            Some(value) => Op::Const {
                dst,
                value: extend(value, width, signed),
            },
            // Loads and masks often leave nothing to extend.
            None if is_extended(facts, src, width, signed) => Op::Copy { dst, src },
            None => op,
        },
        Op::Load {
            dst,
            width,
            signed,
            base,
            offset,
        } => {
            let (base, offset) = reach(facts, base, offset);
            Op::Load {
                dst,
                width,
                signed,
                base,
                offset,
            }
        }
        Op::Touch { dst, base, offset } => {
            let (base, offset) = reach(facts, base, offset);
            Op::Touch { dst, base, offset }
        }
        Op::Store {
            width,
            base,
            offset,
            value,
        } => {
            let (base, offset) = reach(facts, base, offset);
            Op::Store {
                width,
                base,
                offset,
                value,
            }
        }
        Op::Atomic {
            op,
            width,
            base,
            offset,
            value,
            old,
        } => {
            let (base, offset) = reach(facts, base, offset);
            Op::Atomic {
                op,
                width,
                base,
                offset,
                value,
                old,
            }
        }
        Op::CompareExchange {
            dst,
            width,
            base,
            offset,
            expected,
            new,
        } => {
            let (base, offset) = reach(facts, base, offset);
            Op::CompareExchange {
                dst,
                width,
                base,
                offset,
                expected,
                new,
            }
        }
        other => other,
    }
}

/// Simplifies arithmetic: computes it, drops what changes nothing, turns powers of two into shifts and masks.
fn simplify_alu(facts: &Facts, op: AluOp, bits: Bits, dst: Vreg, left: Vreg, right: Operand) -> Op {
    let unchanged = Op::Alu {
        op,
        bits,
        dst,
        left,
        right,
    };
    let known = facts.constant(left);
    let Operand::Imm(number) = right else {
        return match (known, right) {
            (Some(l), Operand::Reg(r)) if op.commutes() => Op::Alu {
                op,
                bits,
                dst,
                left: r,
                right: Operand::Imm(l),
            },
            _ => unchanged,
        };
    };
    if let Some(l) = known {
        let value = op.apply(bits, l.cast_unsigned(), number.cast_unsigned());
        return Op::Const {
            dst,
            value: value.cast_signed(),
        };
    }
    // A 32-bit operation clears the upper half, so none of the copies and shifts below has the same result.
    if bits == Bits::B32 {
        return unchanged;
    }
    match (op, number) {
        (
            AluOp::Add
            | AluOp::Sub
            | AluOp::Or
            | AluOp::Xor
            | AluOp::ShiftLeft
            | AluOp::ShiftRight
            | AluOp::ShiftRightSigned,
            0,
        )
        | (AluOp::Mul | AluOp::Div, 1)
        | (AluOp::And, -1) => Op::Copy { dst, src: left },
        (AluOp::Mul | AluOp::And, 0) | (AluOp::Mod, 1) => Op::Const { dst, value: 0 },
        (AluOp::Mul | AluOp::Div | AluOp::Mod, n) if n > 0 && n.count_ones() == 1 => {
            let (op, right) = match op {
                AluOp::Mul => (AluOp::ShiftLeft, i64::from(n.trailing_zeros())),
                AluOp::Div => (AluOp::ShiftRight, i64::from(n.trailing_zeros())),
                _ => (AluOp::And, n - 1),
            };
            Op::Alu {
                op,
                bits,
                dst,
                left,
                right: Operand::Imm(right),
            }
        }
        (AluOp::Add, n) => add_to(facts, dst, left, n).unwrap_or(unchanged),
        _ => unchanged,
    }
}

/// `left + n` where `left` is itself an address or sum with a constant.
fn add_to(facts: &Facts, dst: Vreg, left: Vreg, n: i64) -> Option<Op> {
    match facts.definition(left)? {
        Op::Alu {
            op: AluOp::Add,
            bits: Bits::B64,
            left: inner,
            right: Operand::Imm(m),
            ..
        } if facts.is_single(*inner) => Some(Op::Alu {
            op: AluOp::Add,
            bits: Bits::B64,
            dst,
            left: *inner,
            right: Operand::Imm(n.checked_add(*m)?),
        }),
        Op::SlotAddress { slot, offset, .. } => Some(Op::SlotAddress {
            dst,
            slot: *slot,
            offset: u32::try_from(i64::from(*offset).checked_add(n)?).ok()?,
        }),
        Op::MapValue { map, offset, .. } => Some(Op::MapValue {
            dst,
            map: *map,
            offset: u32::try_from(i64::from(*offset).checked_add(n)?).ok()?,
        }),
        _ => None,
    }
}

/// Moves a constant that was added to the base of an access into its offset.
fn reach(facts: &Facts, base: Vreg, offset: i16) -> (Vreg, i16) {
    if let Some(Op::Alu {
        op: AluOp::Add,
        bits: Bits::B64,
        left,
        right: Operand::Imm(n),
        ..
    }) = facts.definition(base)
        && facts.is_single(*left)
        && let Some(Ok(sum)) = n.checked_add(i64::from(offset)).map(i16::try_from)
    {
        return (*left, sum);
    }
    (base, offset)
}

/// Extends the low `width` bytes of a number to 64 bits, with their sign or with zeros.
fn extend(value: i64, width: Width, signed: bool) -> i64 {
    let shift = 64 - width.bytes() * 8;
    if signed {
        value << shift >> shift
    } else {
        (value.cast_unsigned() << shift >> shift).cast_signed()
    }
}

/// Whether a register is known to be the extension of its low bytes already.
fn is_extended(facts: &Facts, v: Vreg, width: Width, signed: bool) -> bool {
    match facts.definition(v) {
        Some(
            Op::Load {
                width: w, signed: s, ..
            }
            | Op::Extend {
                width: w, signed: s, ..
            },
        ) => (*s == signed && *w <= width) || (!*s && *w < width),
        Some(Op::Compare { .. }) => true,
        Some(Op::Alu {
            op: AluOp::And,
            right: Operand::Imm(mask),
            ..
        }) => *mask >= 0 && extend(*mask, width, signed) == *mask,
        _ => width == Width::B8,
    }
}

/// Turns a branch on a known condition into a jump.
fn fold_end(facts: &Facts, end: End) -> End {
    match end {
        End::Exit(value) => End::Exit(facts.operand(value)),
        End::Branch {
            condition,
            bits,
            left,
            right,
            then,
            otherwise,
        } => {
            let (left, right) = (facts.original(left), facts.operand(right));
            match (facts.constant(left), right) {
                (Some(l), Operand::Imm(r)) => {
                    End::Jump(if condition.holds(bits, l.cast_unsigned(), r.cast_unsigned()) {
                        then
                    } else {
                        otherwise
                    })
                }
                (Some(l), Operand::Reg(r)) => End::Branch {
                    // Instructions have constants on the right only.
                    condition: condition.swapped(),
                    bits,
                    left: r,
                    right: Operand::Imm(l),
                    then,
                    otherwise,
                },
                _ => End::Branch {
                    condition,
                    bits,
                    left,
                    right,
                    then,
                    otherwise,
                },
            }
        }
        jump => jump,
    }
}
