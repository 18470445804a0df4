//! The compiled program, not yet bound to maps, with all that its loader must know.

use crate::context::ProgramKind;
use crate::error::Error;
use crate::ir::{Function, MapUse, Op};
use kestrel_bpf::code::Code;
use kestrel_bpf::either::either;
use kestrel_bpf::helper::Helper;
use kestrel_trace::layout::Layout;
use std::collections::BTreeSet;

/// A compiled program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The event it was made for.
    pub name: String,
    /// The kind of hook.
    pub kind: ProgramKind,
    /// Instructions, references, and where each came from.
    pub code: Code,
    /// By [`kestrel_bpf::code::MapRef`]: maps to make and maps to find.
    pub maps: Vec<MapUse>,
    /// Of the records it writes, by what their number exceeds the event's; empty if it writes none.
    pub layouts: Vec<Layout>,
    /// Features of the kernel that it needs.
    pub uses: Uses,
    /// The intermediate code after all passes, for tests and debugging.
    pub function: Function,
}

/// The kernel's function that says whether a program runs at a function's return or at its entry (Linux 6.10).
pub const IS_RETURN: &str = "bpf_session_is_return";

impl Program {
    /// The program that is this one at a function's entry, and another one at its return.
    ///
    /// # Errors
    /// When they are too long together.
    pub fn with_return(self, other: Self) -> Result<Self, Error> {
        let code = either(IS_RETURN, &self.code, &other.code, self.maps.len() as u32);
        let mut uses = self.uses;
        uses.helpers.extend(other.uses.helpers);
        uses.kfuncs.extend(other.uses.kfuncs);
        uses.kfuncs.insert(IS_RETURN.to_owned());
        Ok(Self {
            code: code.map_err(Error::Assemble)?,
            maps: [self.maps, other.maps].concat(),
            layouts: [self.layouts, other.layouts].concat(),
            uses,
            ..self
        })
    }
}

/// Helpers and kernel functions that a program calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// BPF helpers that the program calls.
    pub helpers: BTreeSet<Helper>,
    /// Kernel functions, by name.
    pub kfuncs: BTreeSet<String>,
}

impl Uses {
    /// Calls of functions.
    pub fn of<'f>(functions: impl IntoIterator<Item = &'f Function>) -> Self {
        let mut uses = Self::default();
        let blocks = functions.into_iter().flat_map(|function| &function.blocks);
        for inst in blocks.flat_map(|b| &b.insts) {
            match &inst.op {
                Op::Helper { helper, .. } => {
                    uses.helpers.insert(*helper);
                }
                Op::Kfunc { name, .. } => {
                    uses.kfuncs.insert(name.clone());
                }
                _ => {}
            }
        }
        uses
    }
}
