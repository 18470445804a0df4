//! The intermediate code: virtual registers, three addresses, basic blocks, close to BPF; no types, no physical registers.
//!
//! Not SSA: a register may be assigned again ([`Builder::assign`]), which is how values meet after branches and in loops. Every
//! register must be assigned on each path before it is used. Blocks end in exactly one [`End`]; the first one is the entry.

mod builder;
mod dominate;
mod dump;
mod map;
mod op;

pub use builder::Builder;
pub(crate) use dominate::Dominators;
pub use map::{MapKind, MapSpec, MapUse};
pub use op::{AluOp, AtomicOp, Bits, Condition, Op, Operand, Width};

pub use kestrel_bpf::helper::{self, Helper};

use kestrel_bpf::code::SourceRange as Span;
use std::collections::BTreeMap;

/// A virtual register: 64 bits, as many as one likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vreg(pub u32);

/// A basic block of a [`Function`], by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// An object in the stack frame (or, where the frame is too small, in the program's scratch map), by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// An operation and the source it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// Operation of the instruction.
    pub op: Op,
    /// Bytes of the source text.
    pub span: Span,
}

/// Terminator of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Goes to a block.
    Jump(BlockId),
    /// Compares and goes to one of two blocks.
    Branch {
        /// The comparison.
        condition: Condition,
        /// Number of low bits that are compared.
        bits: Bits,
        /// Left operand.
        left: Vreg,
        /// Right operand.
        right: Operand,
        /// Where to go when it holds.
        then: BlockId,
        /// Where to go when not.
        otherwise: BlockId,
    },
    /// Leaves the program with a return value.
    Exit(Operand),
}

/// A basic block.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Instructions in order.
    pub insts: Vec<Inst>,
    /// The end; `None` only while it is being built.
    pub end: Option<End>,
    /// The source that the end was made from.
    pub end_span: Span,
    /// Whether it is rarely reached, so that its code goes last.
    pub cold: bool,
}

/// Shape of a frame object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Size in bytes.
    pub size: u32,
    /// A power of two, at most 8.
    pub align: u32,
    /// The source that needs it, for messages.
    pub span: Span,
    /// Whether it must lie in the frame itself.
    pub framed: bool,
}

/// Parameters of a function that is called, or called back by a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The frame object that keeps them, 8 bytes each.
    pub slot: Slot,
    /// The first parameter's register.
    pub first: u8,
    /// Number of parameters.
    pub count: u8,
}

/// A function in the intermediate representation.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The first is the entry.
    pub blocks: Vec<Block>,
    /// Frame objects, by [`Slot`].
    pub objects: Vec<Object>,
    /// Number of virtual registers.
    pub vregs: u32,
    /// The register that holds the program's context from the entry on, if anything asked for it.
    pub context: Option<Vreg>,
    /// Of a function that a helper calls back: registers that are kept at its entry.
    pub parameters: Option<Parameters>,
    /// Maps, by [`kestrel_bpf::code::MapRef`].
    pub maps: Vec<MapUse>,
    /// The functions of the program's own that it calls, by name; each has [`Function::parameters`] from register 1 on, and maps by its own list.
    pub called: BTreeMap<String, Function>,
}

impl End {
    /// The blocks it may go to.
    pub fn targets(&self) -> impl Iterator<Item = BlockId> + use<> {
        let (first, second) = match self {
            Self::Jump(to) => (Some(*to), None),
            Self::Branch { then, otherwise, .. } => (Some(*then), Some(*otherwise)),
            Self::Exit(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The blocks it may go to, to be redirected.
    pub(crate) fn targets_mut(&mut self) -> impl Iterator<Item = &mut BlockId> {
        let (first, second) = match self {
            Self::Jump(to) => (Some(to), None),
            Self::Branch { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Self::Exit(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Visits the registers it reads, to change them.
    pub(crate) fn each_use(&mut self, visit: &mut dyn FnMut(&mut Vreg)) {
        match self {
            Self::Branch { left, right, .. } => {
                visit(left);
                right.vreg_mut().into_iter().for_each(visit);
            }
            Self::Exit(value) => value.vreg_mut().into_iter().for_each(visit),
            Self::Jump(_) => {}
        }
    }

    /// The registers it reads.
    pub fn uses(&self) -> impl Iterator<Item = Vreg> + use<> {
        let (first, second) = match self {
            Self::Jump(_) => (None, None),
            Self::Branch { left, right, .. } => (Some(*left), right.vreg()),
            Self::Exit(value) => (value.vreg(), None),
        };
        first.into_iter().chain(second)
    }
}

impl Function {
    /// Makes a fresh register.
    pub fn vreg(&mut self) -> Vreg {
        self.vregs += 1;
        Vreg(self.vregs - 1)
    }

    /// The block with this id.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// Ids of all blocks.
    pub fn ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (0..self.blocks.len() as u32).map(BlockId)
    }

    /// Reachable blocks in reverse postorder from the entry.
    pub fn order(&self) -> Vec<BlockId> {
        let mut seen = vec![false; self.blocks.len()];
        let mut post = Vec::new();
        let mut stack = vec![(BlockId(0), false)];
        while let Some((id, done)) = stack.pop() {
            if done {
                post.push(id);
                continue;
            }
            if std::mem::replace(&mut seen[id.0 as usize], true) {
                continue;
            }
            stack.push((id, true));
            // The last one pushed is visited first and so comes last in the reverse: push `otherwise` last to keep `then`
            // right behind its branch.
            let targets: Vec<BlockId> = self.block(id).end.iter().flat_map(End::targets).collect();
            stack.extend(targets.into_iter().map(|t| (t, false)));
        }
        post.reverse();
        post
    }
}
