//! Dominators of blocks; after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".

use super::{BlockId, End, Function};
use std::collections::HashMap;

/// Immediate dominators of the reachable blocks.
pub(crate) struct Dominators {
    /// Place of each reachable block in reverse postorder.
    places: HashMap<BlockId, usize>,
    order: Vec<BlockId>,
    /// By place: the place of the closest block that every path passes before; the entry's is itself.
    parents: Vec<usize>,
}

impl Dominators {
    /// Dominators of a function's reachable blocks.
    pub(crate) fn of(function: &Function) -> Self {
        let order = function.order();
        let places: HashMap<BlockId, usize> = order.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut before = vec![Vec::new(); order.len()];
        for (from, id) in order.iter().enumerate() {
            for target in function.block(*id).end.iter().flat_map(End::targets) {
                before[places[&target]].push(from);
            }
        }
        let mut found: Vec<Option<usize>> = vec![None; order.len()];
        found[0] = Some(0);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for at in 1..order.len() {
                let known = before[at].iter().copied().filter(|p| found[*p].is_some());
                let up = |at: usize| found[at].unwrap_or(0);
                let parent = known.reduce(|a, b| meet(&up, a, b));
                if parent != found[at] {
                    found[at] = parent;
                    changed = true;
                }
            }
        }
        Self {
            places,
            order,
            parents: found.into_iter().map(Option::unwrap_or_default).collect(),
        }
    }

    /// Whether every path to `b` passes `a`; both reachable.
    pub(crate) fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        let (Some(&a), Some(&b)) = (self.places.get(&a), self.places.get(&b)) else {
            return false;
        };
        // Asked for each pair of blocks of long programs: nothing but the way up.
        let mut at = b;
        while at > a {
            at = self.parents[at];
        }
        at == a
    }

    /// The last block that every path to any of these (reachable) blocks passes.
    pub(crate) fn common(&self, blocks: impl IntoIterator<Item = BlockId>) -> Option<BlockId> {
        let places = blocks.into_iter().filter_map(|id| self.places.get(&id).copied());
        let parent = |at: usize| self.parents[at];
        places.reduce(|a, b| meet(&parent, a, b)).map(|at| self.order[at])
    }
}

/// The closest common ancestor; parents come before their children in reverse postorder.
fn meet(parent: &impl Fn(usize) -> usize, mut a: usize, mut b: usize) -> usize {
    while a != b {
        let deeper = if a > b { &mut a } else { &mut b };
        *deeper = parent(*deeper);
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
        assert_eq!(dominators.common([left, right]), Some(BlockId(0)));
        assert_eq!(dominators.common([out, join]), Some(join));
        assert_eq!(dominators.common([out]), Some(out));
        assert_eq!(dominators.common([left, out]), Some(BlockId(0)));
        assert!(dominators.dominates(join, out) && !dominators.dominates(left, join));
    }
}
