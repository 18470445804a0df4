//! Weights of stacks in the tree: one for each record, or the time that its thread was off the CPU after it.

use super::tree::CallTree;
use crate::record::Record;
use crate::sched::TaskState;
use std::collections::HashMap;

/// Weighing of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Each record counts 1: profiles, and how often an event came from where.
    #[default]
    Records,
    /// Each `sched_switch` counts the time until its thread ran again.
    OffCpu,
}

/// Unit of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Stacks weigh by records.
    Samples,
    /// Stacks weigh by nanoseconds.
    Nanoseconds,
}

impl Weight {
    /// The unit of its weights.
    pub fn unit(self) -> Unit {
        match self {
            Self::Records => Unit::Samples,
            Self::OffCpu => Unit::Nanoseconds,
        }
    }
}

/// Weighs the stacks of records: each as one, or by its thread's time off the CPU.
#[derive(Debug)]
pub(super) struct Weigher {
    weight: Weight,
    /// By thread: since when it is off the CPU, and the node of its stack.
    off: HashMap<u32, (u64, u32)>,
}

impl Weigher {
    pub(super) fn new(weight: Weight) -> Self {
        Self {
            weight,
            off: HashMap::new(),
        }
    }

    /// Adds what a record weighs.
    pub(super) fn weigh(&mut self, record: &Record<'_>, node: Option<u32>, tree: &mut CallTree) {
        match (self.weight, node) {
            (Weight::Records, Some(node)) => tree.weigh(node, 1),
            (Weight::Records, None) => {}
            (Weight::OffCpu, node) => self.switch(record, node, tree),
        }
    }

    /// A thread leaves the CPU and another enters it.
    fn switch(&mut self, record: &Record<'_>, node: Option<u32>, tree: &mut CallTree) {
        let thread = |field| record.get(field)?.as_u64().map(|thread| thread as u32);
        let (Some(previous), Some(next)) = (thread("prev_pid"), thread("next_pid")) else {
            return;
        };
        if let Some((since, node)) = self.off.remove(&next) {
            tree.weigh(node, record.time_ns.saturating_sub(since));
        }
        // The idle threads are what runs when none can; a thread that has ended waits for nothing, and another may get its number.
        let state = record.get("prev_state").and_then(|state| state.as_u64());
        let is_dead = state.is_some_and(|state| TaskState(state).is_dead());
        if let Some(node) = node
            && previous != 0
            && !is_dead
        {
            self.off.insert(previous, (record.time_ns, node));
        }
    }
}
