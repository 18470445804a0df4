//! A frame as people know it: a function of a binary, a command.

use super::tree::CallTree;
use crate::layout::Space;
use crate::print::TRUNCATED;
use crate::symbol::Symbols;
use crate::user_symbol::code_address;
use crate::value::Frames;
use std::collections::HashMap;

/// A level of a call tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function, or the command; `[unknown]` where it has no name.
    pub name: String,
    /// The binary, as perf calls it: a path, `[kernel.kallsyms]`, a module in brackets; empty for a command.
    pub binary: String,
    /// Whether it is the kernel's.
    pub kernel: bool,
}

/// perf's name for code without a name, and for the kernel's own binary.
const UNKNOWN: &str = "[unknown]";
const KERNEL: &str = "[kernel.kallsyms]";

impl Frame {
    pub(super) fn command(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            binary: String::new(),
            kernel: false,
        }
    }

    /// Frame that stands for those that a copy of a stack was too short for.
    pub(super) fn truncated() -> Self {
        Self::command(TRUNCATED)
    }

    /// The name in folded lines: where there is none, the binary's.
    pub fn folded(&self) -> String {
        let name = match self.name.as_str() {
            UNKNOWN if !self.binary.is_empty() && self.binary != UNKNOWN => {
                let leaf = self.binary.rsplit('/').next().unwrap_or_default();
                format!("[{}]", leaf.trim_matches(['[', ']']))
            }
            name => name.to_owned(),
        };
        name.replace([';', '\n', '\r'], ":")
    }
}

/// Names of addresses, each looked up once.
#[derive(Debug)]
pub(super) struct Names {
    symbols: Symbols,
    kernel: HashMap<u64, [u32; 1]>,
    /// By binary and place in it.
    user: HashMap<(usize, u64), Vec<u32>>,
    unknown: Option<[u32; 1]>,
}

impl Names {
    pub(super) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            kernel: HashMap::new(),
            user: HashMap::new(),
            unknown: None,
        }
    }

    /// The frames of an address, outermost first: several where functions were inlined.
    pub(super) fn of(
        &mut self,
        stack: &Frames<'_>,
        index: usize,
        address: u64,
        tree: &mut CallTree,
    ) -> &[u32] {
        match stack.space {
            Space::Kernel => {
                let symbols = &self.symbols;
                self.kernel
                    .entry(address)
                    .or_insert_with(|| [tree.frame(kernel(symbols, address))])
            }
            Space::User => self.user(stack, index, address, tree),
        }
    }

    fn user(&mut self, stack: &Frames<'_>, index: usize, address: u64, tree: &mut CallTree) -> &[u32] {
        let called = code_address(address, index == 0);
        let Some(location) = self.symbols.user().locate(stack.pid, stack.time_ns, called) else {
            let unknown = || {
                [tree.frame(Frame {
                    name: UNKNOWN.to_owned(),
                    binary: UNKNOWN.to_owned(),
                    kernel: false,
                })]
            };
            return self.unknown.get_or_insert_with(unknown);
        };
        // Binaries do not move, so the address of one distinguishes it from others.
        let key = (std::ptr::from_ref(location.binary).addr(), location.at);
        self.user.entry(key).or_insert_with(|| {
            let frame = |name: &str| Frame {
                name: name.to_owned(),
                binary: location.binary.path.clone(),
                kernel: false,
            };
            match location.code() {
                None => vec![tree.frame(frame(UNKNOWN))],
                Some(code) => {
                    let inlined = code.inlined.iter().map(|inlined| inlined.function.as_str());
                    let names = std::iter::once(code.function.as_str()).chain(inlined);
                    names.map(|name| tree.frame(frame(name))).collect()
                }
            }
        })
    }
}

fn kernel(symbols: &Symbols, address: u64) -> Frame {
    let found = symbols.resolve(address);
    Frame {
        name: found.as_ref().map_or(UNKNOWN, |it| it.name).to_owned(),
        binary: found
            .and_then(|it| it.module)
            .map_or_else(|| KERNEL.to_owned(), |module| format!("[{module}]")),
        kernel: true,
    }
}
