//! Calls a helper once for what is constant during a run of the program: the process, for predicate, sink and record; the context, within a few operations.

use super::facts::Facts;
use crate::ir::{BlockId, Dominators, Function, Helper, Op, Operand, Vreg, Width, helper};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Helpers that give the same to the same arguments all through a run (migration is off while a program runs).
const CONSTANT: &[Helper] = &[
    helper::GET_SMP_PROCESSOR_ID,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_UID_GID,
    helper::GET_CURRENT_TASK,
    helper::GET_CURRENT_TASK_BTF,
    helper::GET_CURRENT_CGROUP_ID,
    helper::GET_FUNC_IP,
    helper::GET_ATTACH_COOKIE,
];

/// A call made, where, and the register that holds its result.
struct Call {
    helper: Helper,
    args: Vec<Operand>,
    block: BlockId,
    result: Vreg,
}

/// Replaces calls that an earlier one on every path has answered, and loads from the context that are at hand.
pub(super) fn run(function: &mut Function) {
    share_calls(function);
    share_loads(function);
}

/// The context does not change while the program runs. A load is cheaper than keeping its result across a call, so only those of one
/// block between two calls are shared.
fn share_loads(function: &mut Function) {
    let facts = Facts::of(function);
    for block in &mut function.blocks {
        let mut loads: HashMap<(Width, bool, i16), Vreg> = HashMap::new();
        for inst in &mut block.insts {
            match inst.op {
                Op::Load {
                    dst,
                    width,
                    signed,
                    base,
                    offset,
                } if Some(base) == function.context && facts.is_single(dst) => {
                    match loads.entry((width, signed, offset)) {
                        Entry::Occupied(earlier) => {
                            inst.op = Op::Copy {
                                dst,
                                src: *earlier.get(),
                            };
                        }
                        Entry::Vacant(new) => {
                            new.insert(dst);
                        }
                    }
                }
                ref op if op.is_call() => loads.clear(),
                _ => {}
            }
        }
    }
}

fn share_calls(function: &mut Function) {
    let facts = Facts::of(function);
    let dominators = Dominators::of(function);
    let mut calls: Vec<Call> = Vec::new();
    for block in function.order() {
        for inst in &mut function.blocks[block.0 as usize].insts {
            let Op::Helper {
                dst: Some(dst),
                helper,
                args,
            } = &inst.op
            else {
                continue;
            };
            let stable = args.iter().filter_map(|a| a.vreg()).all(|v| facts.is_single(v));
            if !CONSTANT.contains(helper) || !stable {
                continue;
            }
            let earlier = calls
                .iter()
                .find(|c| c.helper == *helper && c.args == *args && dominators.dominates(c.block, block));
            if let Some(call) = earlier {
                inst.op = Op::Copy {
                    dst: *dst,
                    src: call.result,
                };
            } else if facts.is_single(*dst) {
                calls.push(Call {
                    helper: *helper,
                    args: args.clone(),
                    block,
                    result: *dst,
                });
            }
        }
    }
}
