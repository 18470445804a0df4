//! Drops sign extensions whose upper half is not read: of stored fields, and of comparisons that 32 bits decide.

use super::facts::Facts;
use crate::ir::{Bits, End, Function, Op, Operand, Width};

/// Compares 32 bits where both sides are extended from them, then drops extensions that only narrow stores and such comparisons see.
pub(super) fn run(function: &mut Function) {
    compare_halves(function);
    let read_widths = read_widths(function);
    for inst in function.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        let Some(dst) = inst.op.def() else { continue };
        let enough = |width: Width| read_widths[dst.0 as usize].is_some_and(|w| w <= width);
        match &mut inst.op {
            Op::Load { width, signed, .. } if enough(*width) => *signed = false,
            Op::Extend { dst, src, width, .. } if enough(*width) => {
                inst.op = Op::Copy { dst: *dst, src: *src };
            }
            _ => {}
        }
    }
}

/// A sign-extended 32-bit value compares with a number of 32 signed bits as its lower half does: extension keeps equality, both
/// orders, and whether there are bits in common.
fn compare_halves(function: &mut Function) {
    let facts = Facts::of(function);
    for block in &mut function.blocks {
        if let Some(End::Branch {
            bits,
            left,
            right: Operand::Imm(n),
            ..
        }) = &mut block.end
            && i32::try_from(*n).is_ok()
            && let Some(
                Op::Load {
                    width: Width::B4,
                    signed: true,
                    ..
                }
                | Op::Extend {
                    width: Width::B4,
                    signed: true,
                    ..
                },
            ) = facts.definition(*left)
        {
            *bits = Bits::B32;
        }
    }
}

/// By register: the widest read of it; `None` where nothing reads it.
fn read_widths(function: &Function) -> Vec<Option<Width>> {
    let mut read_widths = vec![None; function.vregs as usize];
    let mut read = |v: crate::ir::Vreg, width: Width| {
        let entry = &mut read_widths[v.0 as usize];
        *entry = (*entry).max(Some(width));
    };
    for block in &function.blocks {
        for inst in &block.insts {
            match &inst.op {
                Op::Store {
                    width, base, value, ..
                } => {
                    read(*base, Width::B8);
                    value.vreg().into_iter().for_each(|v| read(v, *width));
                }
                op => op.uses().for_each(|v| read(v, Width::B8)),
            }
        }
        match &block.end {
            Some(End::Branch {
                bits: Bits::B32,
                left,
                right,
                ..
            }) => {
                read(*left, Width::B4);
                right.vreg().into_iter().for_each(|v| read(v, Width::B4));
            }
            Some(end) => end.uses().for_each(|v| read(v, Width::B8)),
            None => {}
        }
    }
    read_widths
}
