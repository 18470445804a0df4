//! Branches on a comparison itself where the source compared its 0 or 1 with 0, and on bits where it masked them first.

use super::facts::Facts;
use crate::ir::{AluOp, Bits, Condition, End, Function, Op, Operand};

/// Rewrites branch ends; comparisons that are no longer read are left to the `dead` pass.
pub(super) fn run(function: &mut Function) {
    let facts = Facts::of(function);
    for block in &mut function.blocks {
        // A branch on a comparison of comparisons: peel one per round.
        for _ in 0..8 {
            let Some(new) = block.end.as_ref().and_then(|end| fuse(&facts, end)) else {
                break;
            };
            block.end = Some(new);
        }
    }
}

fn fuse(facts: &Facts, end: &End) -> Option<End> {
    let End::Branch {
        condition: outer @ (Condition::Equal | Condition::NotEqual),
        bits: Bits::B64,
        left: value,
        right: Operand::Imm(0),
        then,
        otherwise,
    } = *end
    else {
        return None;
    };
    let (condition, bits, left, right) = match facts.definition(value)? {
        Op::Compare {
            condition,
            bits,
            left,
            right,
            ..
        } => (*condition, *bits, *left, *right),
        Op::Alu {
            op: AluOp::And,
            bits,
            left,
            right,
            ..
        } if facts.reads(value) == 1 => (Condition::AnyBit, *bits, *left, *right),
        _ => return None,
    };
    // An operand that is set again between comparison and branch would be compared with its later value.
    let stable = facts.is_single(left) && right.vreg().is_none_or(|v| facts.is_single(v));
    if !stable {
        return None;
    }
    let (then, otherwise) = if outer == Condition::NotEqual {
        (then, otherwise)
    } else {
        (otherwise, then)
    };
    Some(End::Branch {
        condition,
        bits,
        left,
        right,
        then,
        otherwise,
    })
}
