//! Drops operations without effect whose result is not read.

use super::facts::Facts;
use crate::ir::{AtomicOp, Function, Op};

/// Drops until nothing more falls away.
pub(super) fn run(function: &mut Function) {
    loop {
        let facts = Facts::of(function);
        let mut changed = false;
        for block in &mut function.blocks {
            let before = block.insts.len();
            block.insts.retain(|inst| match inst.op.def() {
                Some(dst) => !inst.op.is_pure() || facts.reads(dst) > 0,
                None => true,
            });
            changed |= block.insts.len() != before;
            for inst in &mut block.insts {
                drop_result(&facts, &mut inst.op);
            }
        }
        if !changed {
            break;
        }
    }
    if function
        .context
        .is_some_and(|c| Facts::of(function).reads(c) == 0)
    {
        function.context = None;
    }
}

/// Forgets unread results of operations that must be kept: an atomic addition without its old value is cheaper.
fn drop_result(facts: &Facts, op: &mut Op) {
    match op {
        Op::Atomic {
            op: AtomicOp::Add | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor,
            old: dst,
            ..
        }
        | Op::Helper { dst, .. }
        | Op::Kfunc { dst, .. }
            if dst.is_some_and(|v| facts.reads(v) == 0) =>
        {
            *dst = None;
        }
        _ => {}
    }
}
