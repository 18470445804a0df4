//! A program before it meets a kernel: instructions, what they still refer to by name, and where they came from.

use crate::insn::Insn;

/// A map that a program refers to: its index in the list of maps that the loader gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapRef(pub u32);

/// Target of a reference that the loader resolves, once it knows file descriptors and BTF ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RelocationTarget {
    /// A 64-bit load of a map (`BPF_PSEUDO_MAP_FD`).
    Map(MapRef),
    /// A 64-bit load of an address inside the first value of an array map (`BPF_PSEUDO_MAP_VALUE`); the second slot's
    /// immediate already holds the offset.
    MapValue(MapRef),
    /// A call of a kernel function by name (`BPF_PSEUDO_KFUNC_CALL`); the immediate becomes its BTF id.
    Kfunc(String),
}

/// A reference in code that the loader fills in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Relocation {
    /// Index of the instruction (of its first slot, for a 64-bit load).
    pub insn: usize,
    /// The target of the reference.
    pub target: RelocationTarget,
}

/// Bytes of the source text that an instruction was made from: `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceRange {
    /// First byte of the source that the instructions came from.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl SourceRange {
    /// Range of an error that is at no place of a text: of one in the command line, for instance.
    pub const NOWHERE: Self = Self {
        start: u32::MAX,
        end: u32::MAX,
    };
}

/// From instruction `insn` on (until the next entry), the code was made from `source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Index of the first instruction.
    pub insn: usize,
    /// Where it came from.
    pub source: SourceRange,
}

/// A program that still has to be bound to maps and kernel functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// The instructions; a 64-bit load takes two.
    pub insns: Vec<Insn>,
    /// References to fill in before loading, in instruction order.
    pub relocations: Vec<Relocation>,
    /// Where instructions came from, in instruction order.
    pub lines: Vec<Line>,
    /// Where functions begin that helpers call back, in instruction order; the program itself begins at 0.
    pub callbacks: Vec<usize>,
    /// Functions that the program itself calls, in instruction order, behind those that helpers call back.
    pub functions: Vec<OwnFunction>,
}

/// A function of a program that other functions of it call: it takes numbers, gives one, and the verifier looks at it once, whatever it is given
/// (the kernel calls such functions global).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnFunction {
    /// Index of its first instruction.
    pub begin: usize,
    /// Number of its parameters, at most five.
    pub parameters: u8,
}
