//! Dominators of blocks; after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".

use super::{BlockId, End, Function};
use std::collections::HashMap;

/// Immediate dominators of the reachable blocks.
pub(crate) struct Dominators {
    /// Index of each reachable block in reverse postorder.
    index: HashMap<BlockId, usize>,
    order: Vec<BlockId>,
    /// By index: the immediate dominator; the entry's is itself.
    immediate: Vec<usize>,
}

impl Dominators {
    /// Dominators of a function's reachable blocks.
    pub(crate) fn of(function: &Function) -> Self {
        let order = function.order();
        let index: HashMap<BlockId, usize> = order.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut predecessors = vec![Vec::new(); order.len()];
        for (from, id) in order.iter().enumerate() {
            for target in function.block(*id).end.iter().flat_map(End::targets) {
                predecessors[index[&target]].push(from);
            }
        }
        let mut found: Vec<Option<usize>> = vec![None; order.len()];
        found[0] = Some(0);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for at in 1..order.len() {
                let known = predecessors[at].iter().copied().filter(|p| found[*p].is_some());
                let up = |at: usize| found[at].unwrap_or(0);
                let closest = known.reduce(|a, b| meet(&up, a, b));
                if closest != found[at] {
                    found[at] = closest;
                    changed = true;
                }
            }
        }
        Self {
            index,
            order,
            immediate: found.into_iter().map(Option::unwrap_or_default).collect(),
        }
    }

    /// Whether every path to `b` passes `a`; both reachable.
    pub(crate) fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        let (Some(&a), Some(&b)) = (self.index.get(&a), self.index.get(&b)) else {
            return false;
        };
        // Asked for each pair of blocks of long programs: nothing but the way up.
        let mut at = b;
        while at > a {
            at = self.immediate[at];
        }
        at == a
    }

    /// The nearest common dominator of these reachable blocks.
    pub(crate) fn nearest_common(&self, blocks: impl IntoIterator<Item = BlockId>) -> Option<BlockId> {
        let indexes = blocks.into_iter().filter_map(|id| self.index.get(&id).copied());
        let immediate = |at: usize| self.immediate[at];
        indexes
            .reduce(|a, b| meet(&immediate, a, b))
            .map(|at| self.order[at])
    }
}

/// The nearest common dominator of two blocks; an immediate dominator comes before its blocks in reverse postorder.
fn meet(immediate: &impl Fn(usize) -> usize, mut a: usize, mut b: usize) -> usize {
    while a != b {
        let deeper = if a > b { &mut a } else { &mut b };
        *deeper = immediate(*deeper);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Builder, Condition};

    #[test]
    fn diamonds_and_loops() {
        let mut b = Builder::new();
        let (left, right, join, out) = (b.block(), b.block(), b.block(), b.block());
        let context = b.context();
        b.branch(Condition::Equal, context, 0, left, right);
        b.switch_to(left);
        b.jump(join);
        b.switch_to(right);
        b.jump(join);
        b.switch_to(join);
        b.branch(Condition::Equal, context, 1, join, out);
        let function = b.finish();
        let dominators = Dominators::of(&function);
        assert_eq!(dominators.nearest_common([left, right]), Some(BlockId(0)));
        assert_eq!(dominators.nearest_common([out, join]), Some(join));
        assert_eq!(dominators.nearest_common([out]), Some(out));
        assert_eq!(dominators.nearest_common([left, out]), Some(BlockId(0)));
        assert!(dominators.dominates(join, out) && !dominators.dominates(left, join));
    }
}
