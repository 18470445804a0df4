//! Legalisation: operations that BPF has no instruction for become ones that it has: immediates of 32 signed bits, shifts within the width, two-address arithmetic.

use crate::ir::{AluOp, AtomicOp, Bits, End, Function, Inst, Op, Operand, Vreg, Width};

/// Rewrites what has no instruction of its own. Must run before registers are chosen.
pub(super) fn run(function: &mut Function) {
    for at in 0..function.blocks.len() {
        let insts = std::mem::take(&mut function.blocks[at].insts);
        let mut out = Vec::with_capacity(insts.len());
        for Inst { op, span } in insts {
            let mut push = |op| out.push(Inst { op, span });
            legalize(function, op, &mut push);
        }
        let span = function.blocks[at].end_span;
        if let Some(End::Branch {
            condition,
            bits,
            left,
            right,
            then,
            otherwise,
        }) = function.blocks[at].end
        {
            let right = legal_operand(function, right, bits, &mut |op| out.push(Inst { op, span }));
            function.blocks[at].end = Some(End::Branch {
                condition,
                bits,
                left,
                right,
                then,
                otherwise,
            });
        }
        function.blocks[at].insts = out;
    }
}

/// A right operand that fits: a number beyond 32 signed bits goes to a register first.
fn legal_operand(function: &mut Function, operand: Operand, bits: Bits, push: &mut dyn FnMut(Op)) -> Operand {
    match (operand, bits) {
        (Operand::Imm(n), Bits::B32) => Operand::Imm(i64::from(n as i32)),
        (Operand::Imm(n), Bits::B64) if i32::try_from(n).is_err() => {
            let dst = function.vreg();
            push(Op::Const { dst, value: n });
            Operand::Reg(dst)
        }
        _ => operand,
    }
}

fn legalize(function: &mut Function, op: Op, push: &mut dyn FnMut(Op)) {
    match op {
        Op::Alu {
            op,
            bits,
            dst,
            left,
            right,
        } => legalize_alu(function, op, bits, dst, left, right, push),
        Op::Compare {
            condition,
            bits,
            dst,
            left,
            right,
        } => {
            let right = legal_operand(function, right, bits, push);
            push(Op::Compare {
                condition,
                bits,
                dst,
                left,
                right,
            });
        }
        Op::Store {
            width,
            base,
            offset,
            value,
        } => {
            let value = match (value, width) {
                // Only the low bytes count, so any extension of them will do.
                (Operand::Imm(n), Width::B1 | Width::B2 | Width::B4) => Operand::Imm(i64::from(n as i32)),
                _ => legal_operand(function, value, Bits::B64, push),
            };
            push(Op::Store {
                width,
                base,
                offset,
                value,
            });
        }
        // An exchange always writes its register.
        Op::Atomic {
            op: AtomicOp::Exchange,
            width,
            base,
            offset,
            value,
            old: None,
        } => {
            let old = Some(function.vreg());
            push(Op::Atomic {
                op: AtomicOp::Exchange,
                width,
                base,
                offset,
                value,
                old,
            });
        }
        other => push(other),
    }
}

fn legalize_alu(
    function: &mut Function,
    op: AluOp,
    bits: Bits,
    dst: Vreg,
    left: Vreg,
    right: Operand,
    push: &mut dyn FnMut(Op),
) {
    let width = if bits == Bits::B32 { 31 } else { 63 };
    let right = match (op, right) {
        // The verifier refuses constant divisors of 0 and constant shifts beyond the width.
        (AluOp::Div, Operand::Imm(0)) => return push(Op::Const { dst, value: 0 }),
        (AluOp::Mod, Operand::Imm(0)) => {
            return push(match bits {
                Bits::B64 => Op::Copy { dst, src: left },
                Bits::B32 => Op::Extend {
                    dst,
                    src: left,
                    width: Width::B4,
                    signed: false,
                },
            });
        }
        (AluOp::ShiftLeft | AluOp::ShiftRight | AluOp::ShiftRightSigned, Operand::Imm(n)) => {
            Operand::Imm(n & width)
        }
        _ => legal_operand(function, right, bits, push),
    };
    let alu = |dst, left, right| Op::Alu {
        op,
        bits,
        dst,
        left,
        right,
    };
    match right {
        // `x = y op x`: the copy of y into x would lose x.
        Operand::Reg(r) if r == dst && left != dst => {
            if op.commutes() {
                push(alu(dst, r, left.into()));
            } else {
                let result = function.vreg();
                push(alu(result, left, right));
                push(Op::Copy { dst, src: result });
            }
        }
        _ => push(alu(dst, left, right)),
    }
}
