//! Follows jumps to jumps, joins a block with its only successor's only predecessor, and empties unreachable blocks.

use crate::ir::{BlockId, End, Function, Operand};

/// Straightens the flow of control.
pub(super) fn run(function: &mut Function) {
    drop_needless_branches(function);
    skip_empty_blocks(function);
    drop_needless_branches(function);
    join_chains(function);
    clear_unreachable(function);
}

fn drop_needless_branches(function: &mut Function) {
    for block in &mut function.blocks {
        if let Some(End::Branch { then, otherwise, .. }) = block.end
            && then == otherwise
        {
            block.end = Some(End::Jump(then));
        }
    }
}

/// Where a jump to `id` ends up; a ring of empty blocks (an endless loop) is left as it is.
fn destination(function: &Function, mut id: BlockId) -> BlockId {
    for _ in 0..function.blocks.len() {
        let block = function.block(id);
        match block.end {
            Some(End::Jump(next)) if block.insts.is_empty() => id = next,
            _ => break,
        }
    }
    id
}

fn skip_empty_blocks(function: &mut Function) {
    let destinations: Vec<BlockId> = function.ids().map(|id| destination(function, id)).collect();
    for block in &mut function.blocks {
        for target in block.end.iter_mut().flat_map(End::targets_mut) {
            *target = destinations[target.0 as usize];
        }
    }
}

fn join_chains(function: &mut Function) {
    let order = function.order();
    let mut entries = vec![0u32; function.blocks.len()];
    entries[0] = 1;
    for id in &order {
        for target in function.block(*id).end.iter().flat_map(End::targets) {
            entries[target.0 as usize] += 1;
        }
    }
    for id in order {
        let at = id.0 as usize;
        while let Some(End::Jump(next)) = function.blocks[at].end {
            let next_at = next.0 as usize;
            if next == id || entries[next_at] != 1 || next_at == 0 {
                break;
            }
            let tail = std::mem::take(&mut function.blocks[next_at].insts);
            let block = &function.blocks[next_at];
            let (end, end_span) = (block.end.clone(), block.end_span);
            function.blocks[next_at].end = Some(End::Exit(Operand::Imm(0)));
            entries[next_at] = 0;
            let block = &mut function.blocks[at];
            block.insts.extend(tail);
            block.end = end;
            block.end_span = end_span;
        }
    }
}

fn clear_unreachable(function: &mut Function) {
    let mut reachable = vec![false; function.blocks.len()];
    for id in function.order() {
        reachable[id.0 as usize] = true;
    }
    for id in function.ids() {
        if !reachable[id.0 as usize] {
            let block = &mut function.blocks[id.0 as usize];
            block.insts.clear();
            block.end = Some(End::Exit(Operand::Imm(0)));
        }
    }
}
