//! A tree of calls with weights: each node is a frame below its callers.

use super::frame::Frame;
use super::weight::Unit;
use std::collections::HashMap;

/// The node above all commands.
pub(super) const ROOT: u32 = 0;

/// A frame below certain callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The frame: an index.
    pub frame: u32,
    /// The caller; the root's is itself.
    pub parent: u32,
    /// Weight of the stacks that end here.
    pub own: u64,
    /// Weight of those that go through it, these included.
    pub total: u64,
    /// Functions that it called, in the order in which they were seen.
    pub children: Vec<u32>,
}

/// Call tree of all stacks: commands below the root, then frames from the outermost to the innermost.
#[derive(Clone, Debug)]
pub struct CallTree {
    unit: Unit,
    frames: Vec<Frame>,
    numbers: HashMap<Frame, u32>,
    nodes: Vec<Node>,
    places: HashMap<(u32, u32), u32>,
    /// Stacks that were added.
    stacks: u64,
}

impl CallTree {
    pub(super) fn new(unit: Unit) -> Self {
        let root = Node {
            frame: 0,
            parent: ROOT,
            own: 0,
            total: 0,
            children: Vec::new(),
        };
        let mut tree = Self {
            unit,
            frames: Vec::new(),
            numbers: HashMap::new(),
            nodes: vec![root],
            places: HashMap::new(),
            stacks: 0,
        };
        tree.frame(Frame::command("all"));
        tree
    }

    pub(super) fn frame(&mut self, frame: Frame) -> u32 {
        if let Some(known) = self.numbers.get(&frame) {
            return *known;
        }
        let number = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.numbers.insert(frame, number);
        number
    }

    pub(super) fn child(&mut self, parent: u32, frame: u32) -> u32 {
        if let Some(known) = self.places.get(&(parent, frame)) {
            return *known;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(Node {
            frame,
            parent,
            own: 0,
            total: 0,
            children: Vec::new(),
        });
        self.nodes[parent as usize].children.push(number);
        self.places.insert((parent, frame), number);
        number
    }

    pub(super) fn weigh(&mut self, node: u32, weight: u64) {
        let own = &mut self.nodes[node as usize].own;
        *own = own.saturating_add(weight);
        self.stacks += 1;
    }

    /// Sums up what lies below each node: children come behind their parents.
    pub(super) fn add_up(&mut self) {
        for node in (0..self.nodes.len()).rev() {
            let it = &mut self.nodes[node];
            it.total = it.total.saturating_add(it.own);
            let (total, parent) = (it.total, it.parent as usize);
            if node != ROOT as usize {
                let above = &mut self.nodes[parent].total;
                *above = above.saturating_add(total);
            }
        }
    }

    /// Unit of the weights.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Stacks in it.
    pub fn stacks(&self) -> u64 {
        self.stacks
    }

    /// The weight of all of them.
    pub fn total(&self) -> u64 {
        self.nodes[ROOT as usize].total
    }

    /// The nodes, callers before what they call; the first is above all commands.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node's frame.
    pub fn frame_of(&self, node: &Node) -> &Frame {
        &self.frames[node.frame as usize]
    }

    /// A frame by its number.
    pub fn frame_at(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    /// The nodes from the command down to this one.
    pub fn path(&self, node: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = node;
        while at != ROOT {
            path.push(at);
            at = self.nodes[at as usize].parent;
        }
        path.reverse();
        path
    }
}
