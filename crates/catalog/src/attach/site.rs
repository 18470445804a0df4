//! Places in the kernel's code where programs are attached, as far as sessions track them: a module that is loaded again lies elsewhere.

use crate::code::CodePlace;
use kestrel_bpf::btf::TypeId;
use serde::{Deserialize, Serialize};

/// An instruction to be probed: by name where that is exact, else by address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KprobeSite {
    /// The place in the kernel's code.
    pub place: CodePlace,
    /// The address of that place.
    pub address: u64,
    /// Whether the kernel finds it by its name.
    pub by_name: bool,
}

/// Where in the kernel's code the programs of a mechanism run.
#[derive(Clone, Copy, Debug)]
pub enum Sites<'a> {
    /// No place that moves: the target keeps its module loaded, or is in none, or the kernel finds it by itself.
    Fixed,
    /// The functions that the events name.
    Functions,
    /// One instruction, with its address: 0 while the kernel waits for its module.
    Instruction(&'a CodePlace, u64),
    /// Several instructions.
    Instructions(&'a [KprobeSite]),
    /// A function's trampoline, whose module stays loaded meanwhile: the module, and the function among its types.
    Trampoline(Option<&'a str>, TypeId),
}
