//! Removes dead stores to registers: assignments that are overwritten on every path before they are read. Variables begin as zero, so most programs have
//! some. (The pass `dead` removes results that nothing reads at all.)

use super::live::flow;
use crate::ir::{End, Function};

/// Removes dead stores until none is left.
pub(crate) fn drop_unread(function: &mut Function) {
    let order = function.order();
    let mut changed = true;
    while std::mem::take(&mut changed) {
        let flow = flow(function, &order);
        // By register: the block (counted from 1) in which it is live at this point; numbers of other blocks are stale.
        let mut needed = vec![0_u32; function.vregs as usize];
        for (here, (at, id)) in (1..).zip(order.iter().enumerate()) {
            let block = &mut function.blocks[id.0 as usize];
            let read_last = block.end.iter().flat_map(End::uses);
            for v in flow.needed_behind(at).chain(read_last) {
                needed[v.0 as usize] = here;
            }
            let mut kept = Vec::with_capacity(block.insts.len());
            for inst in std::mem::take(&mut block.insts).into_iter().rev() {
                let dst = inst.op.def();
                if inst.op.is_pure() && dst.is_some_and(|v| needed[v.0 as usize] != here) {
                    changed = true;
                    continue;
                }
                dst.into_iter().for_each(|v| needed[v.0 as usize] = 0);
                inst.op.uses().for_each(|v| needed[v.0 as usize] = here);
                kept.push(inst);
            }
            kept.reverse();
            block.insts = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Builder, Condition, Width};

    #[test]
    fn values_read_on_some_path_are_kept() {
        let mut b = Builder::new();
        let (other, end) = (b.block(), b.block());
        let [unread, half, read] = [b.vreg(), b.vreg(), b.vreg()];
        for v in [unread, half, read] {
            b.assign(v, 0);
        }
        let context = b.context();
        let word = b.load(Width::B8, context, 0);
        b.assign(unread, 1);
        b.branch(Condition::Equal, word, 0, other, end);
        b.switch_to(other);
        b.assign(half, 2);
        b.jump(end);
        b.switch_to(end);
        let sum = b.add(half, unread);
        let sum = b.add(sum, read);
        b.exit(sum);
        let mut function = b.finish();
        let count = |function: &Function| function.blocks.iter().map(|b| b.insts.len()).sum::<usize>();
        let before = count(&function);
        drop_unread(&mut function);
        assert_eq!(before - count(&function), 1, "{function}");
    }
}
