//! Call stacks of records as one tree per command: what profiles, flame graphs and call graphs are made of; how records are chosen is not known here.
//!
//! ```text
//!   record ──name──► command; outermost … innermost ──► tree of weights ──► call graph (perf report), folded lines, flame graph
//!             (the process's frames, then the kernel's)
//! ```

mod call_graph;
mod flame;
mod frame;
mod tree;
mod weight;

pub use call_graph::{Branch, CallGraph, Direction, Function};
pub use flame::{flame_graph, folded};
pub use frame::Frame;
pub use tree::{CallTree, Node};
pub use weight::{Unit, Weight};

use crate::process::{Learner, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use frame::Names;
use weight::Weigher;

/// Adds up the stacks of records.
#[derive(Debug)]
pub struct Stacks {
    names: Names,
    tree: CallTree,
    weigher: Weigher,
    processes: Processes,
    learner: Learner,
}

impl Stacks {
    /// No stacks yet; `weight` says what each adds.
    pub fn new(symbols: Symbols, processes: Processes, weight: Weight) -> Self {
        Self {
            names: Names::new(symbols),
            tree: CallTree::new(weight.unit()),
            weigher: Weigher::new(weight),
            processes,
            learner: Learner::default(),
        }
    }

    /// Adds a record: nothing where it has no stack. Gives whether it had one.
    pub fn add(&mut self, record: &Record<'_>) -> bool {
        self.learner.learn(record, &mut self.processes);
        let node = self.place(record);
        self.weigher.weigh(record, node, &mut self.tree);
        node.is_some()
    }

    /// Takes note of a record whose stack is not wanted: of names of threads, and that a thread runs again.
    pub fn pass(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
        self.weigher.weigh(record, None, &mut self.tree);
    }

    /// The node of a record's innermost frame, for callers that weigh by themselves; none where it has no stack.
    pub fn node(&mut self, record: &Record<'_>) -> Option<u32> {
        self.learner.learn(record, &mut self.processes);
        self.place(record)
    }

    /// The stacks so far; nothing is added up yet.
    pub fn tree(&self) -> &CallTree {
        &self.tree
    }

    /// The node of a record's innermost frame.
    fn place(&mut self, record: &Record<'_>) -> Option<u32> {
        let (mut stacks, mut kernel) = (0, None);
        let mut node = None;
        for (_, value) in record.fields() {
            let Value::Stack(frames) = value else { continue };
            stacks += 1;
            match frames.space {
                crate::layout::Space::Kernel => kernel = Some(frames),
                crate::layout::Space::User => node = Some(self.grow(record, node, frames)),
            }
        }
        if let Some(frames) = kernel {
            node = Some(self.grow(record, node, frames));
        }
        (stacks > 0).then(|| node.unwrap_or_else(|| self.command(record)))
    }

    fn command(&mut self, record: &Record<'_>) -> u32 {
        let name = self.processes.shown_name(record.tid, record.pid);
        let frame = self
            .tree
            .frame(Frame::command(name.as_deref().unwrap_or("<...>")));
        self.tree.child(tree::ROOT, frame)
    }

    /// Goes down the tree from the outermost frame of a stack to the innermost.
    fn grow(&mut self, record: &Record<'_>, from: Option<u32>, frames: crate::value::Frames<'_>) -> u32 {
        let mut node = match from {
            Some(node) => node,
            None => self.command(record),
        };
        if frames.truncated {
            // The callers of the outermost of these are not known: they are no roots.
            let truncated = self.tree.frame(Frame::truncated());
            node = self.tree.child(node, truncated);
        }
        let addresses: Vec<u64> = frames.iter().collect();
        for (index, address) in addresses.iter().enumerate().rev() {
            for frame in self.names.of(&frames, index, *address, &mut self.tree) {
                node = self.tree.child(node, *frame);
            }
        }
        node
    }

    /// The call tree of all stacks that were added.
    pub fn finish(mut self) -> CallTree {
        self.tree.add_up();
        self.tree
    }
}
