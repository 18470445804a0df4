//! The running kernel's text as instructions: which there are, which can be probed, what runs after each; nothing is probed here.
//!
//! Bytes come from /proc/kcore, where a function begins and ends from /proc/kallsyms. What the kernel writes into its own text is taken for
//! what it stands for (`original`): a kprobe's breakpoint or jump for the instruction under it, ftrace's call for the no-op it replaces.

mod decode;
pub use decode::starts;
mod cache;
mod flow;
mod function;
mod kprobe_table;
mod location;
mod location_spec;
pub mod misses;
mod reserved;
mod unpatched;

pub use cache::CodeCache;
pub use flow::Follow;
pub use function::{CodePlace, Function, Instruction, Patch, Why};
pub use location::KERNEL;
pub use location_spec::LocationSpec;
pub use misses::{Registered, registered_kprobes};

use crate::error::{Error, Result};
use flow::Successor;
use function::{Extent, Patches};
use kestrel_kernel::kcore::Kcore;
use kestrel_kernel::kprobes::Listed;
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;
use unpatched::Originals;

/// The code of one kernel, as it is while this lives.
#[derive(Debug)]
pub struct Code<'c> {
    known: &'c CodeCache,
    memory: Kcore,
    /// Read when it is first needed: the kernel's table of probes may be long.
    originals: OnceCell<Originals>,
}

fn hidden(extent: &Extent, why: &str) -> Error {
    Error::Unsupported {
        what: format!("the instructions of {}", extent.symbol),
        why: format!("a breakpoint hides some of them, and what is under it is not to be had: {why}"),
    }
}

/// Most reads of a text that is written to meanwhile.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

impl<'c> Code<'c> {
    /// The code of a kernel.
    ///
    /// # Errors
    /// When /proc/kcore cannot be opened: the kernel has none, or is locked down.
    pub fn new(known: &'c CodeCache) -> Result<Self> {
        let memory = Kcore::open(known.host())?;
        Ok(Self {
            known,
            originals: OnceCell::new(),
            memory,
        })
    }

    fn originals(&self) -> &Originals {
        let read = || Originals::read(self.known, &self.memory);
        self.originals.get_or_init(read)
    }

    /// A function as it was when it was first asked for: what can be probed in it, and where instructions begin, does not change.
    fn known(&self, extent: &Extent) -> Result<Arc<Function>> {
        if let Some(known) = self.known.known_function(extent.address) {
            return Ok(known);
        }
        let function = Arc::new(self.read(extent)?);
        self.known.know_function(function.clone());
        Ok(function)
    }

    /// A function by name, of the kernel or of one module.
    ///
    /// # Errors
    /// [`Error::NoSuchEvent`] with near names, [`Error::NoPlace`] for one that several functions bear, and when memory cannot be read.
    pub fn function(&self, module: Option<&str>, symbol: &str) -> Result<Function> {
        let place = self.find(module, symbol)?;
        self.read(&place)
    }

    /// The function that an address lies in.
    ///
    /// # Errors
    /// [`Error::NoPlace`] outside of code, and when memory cannot be read.
    pub fn around(&self, address: u64) -> Result<Function> {
        let place = self.at(address)?;
        self.read(&place)
    }

    /// Successors of the instruction at an address.
    ///
    /// Of a function that begins with `endbr64`, the kernel moves a probe at the very beginning behind that; so does this.
    ///
    /// # Errors
    /// [`Error::NoPlace`] where no instruction begins, [`Error::NotFollowed`] where that depends on more than the instruction, or where one
    /// of the followers cannot be probed.
    pub fn following(&self, address: u64) -> Result<Vec<Follow>> {
        let function = self.known(&self.at(address)?)?;
        let address = function.probed(address);
        let instruction = function
            .at(address - function.address)
            .map_err(|why| Error::NoPlace {
                wanted: format!("{address:#x}"),
                why,
            })?;
        let place = function.place(instruction.offset);
        let refused = |why: String| Error::NotFollowed {
            place: place.to_string(),
            text: instruction.text.clone(),
            why,
        };
        let after = flow::successors(instruction.address, &instruction.bytes).map_err(refused)?;
        let follow = |after: Successor| {
            let inside = after.address.wrapping_sub(function.address) < function.size;
            // A jump or call may leave the function.
            let other = if inside {
                None
            } else {
                Some(self.known(&self.at(after.address)?)?)
            };
            let function = other.as_ref().unwrap_or(&function);
            let next = function.at(after.address - function.address).map_err(refused)?;
            let place = function.place(next.offset);
            if let Err(why) = &next.probeable {
                return Err(refused(format!(
                    "{place}, which runs next, cannot be probed: {why}"
                )));
            }
            Ok(Follow {
                address: after.address,
                place,
                stack: after.stack.plus,
                base: after.stack.base,
            })
        };
        after.into_iter().map(follow).collect()
    }

    /// A function's text with the original bytes in the place of kprobes', and where those were.
    ///
    /// The kernel turns breakpoints into jumps and back in the background, and keeps what a jump covers only from the moment it writes it: where
    /// there are probes, they count as read only if the text was the same before and after.
    fn text(&self, extent: &Extent) -> Result<(Vec<u8>, Patches)> {
        let text = || self.memory.bytes(extent.address, extent.size as usize);
        let probed = self.originals().any_in(extent.address, extent.size);
        let mut before: Vec<u8> = text()?;
        if !probed {
            return Ok((before, Vec::new()));
        }
        for _ in 0..LOOKS {
            let originals = Originals::read(self.known, &self.memory);
            if let Some(why) = originals.failed() {
                return Err(hidden(extent, why));
            }
            let after = text()?;
            if before == after {
                let patches = originals.restore(extent.address, &mut before);
                return Ok((before, patches));
            }
            before = after;
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Err(Error::Unsupported {
            what: format!("the instructions of {}", extent.symbol),
            why: "probes come and go in it all the time; try again".to_owned(),
        })
    }

    fn read(&self, extent: &Extent) -> Result<Function> {
        let (mut bytes, mut patches) = self.text(extent)?;
        let traced = self.known.is_traced(
            extent.module.as_deref(),
            &extent.symbol,
            extent.address,
            extent.size,
        )?;
        // ftrace patches the call at a function's beginning at run time: decoding wants the bytes that were compiled.
        if traced && let Some(at) = unpatched::restore_ftrace(&mut bytes) {
            patches.push((at, Patch::Ftrace));
        }
        let symbols = self.known.symbols()?;
        let name = |address: u64| {
            let (symbol, offset) = symbols.at(address)?;
            let place = CodePlace {
                module: symbol.module.map(str::to_owned),
                symbol: symbol.name.to_owned(),
                offset,
            };
            Some(place.to_string())
        };
        let reserved = self.known.reserved(&self.memory);
        let instruction = |decoded: decode::Decoded| {
            let offset = decoded.offset as u64;
            let address = extent.address + offset;
            let why = self
                .blacklisted(address)
                .or_else(|| (!traced).then_some(Why::NotTraced))
                .or_else(|| reserved.why(address))
                .or_else(|| decoded.trap.then_some(Why::Trap))
                .or_else(|| decoded.long_call.then_some(Why::PrefixedCall))
                .or_else(|| decoded.unmovable.map(Why::NotMovable));
            Instruction {
                offset,
                address,
                bytes: bytes[decoded.offset..decoded.offset + decoded.length].to_vec(),
                text: decoded.text,
                probeable: why.map_or(Ok(()), Err),
                patched: patches
                    .iter()
                    .find(|(at, _)| *at == offset)
                    .map(|(_, patch)| *patch),
            }
        };
        let decoded = decode::decode(extent.address, &bytes, &name);
        // A breakpoint of another kprobe hides the instruction under it; without the original bytes the decoding would be wrong from there on.
        if let Some(why) = self.originals().failed()
            && self.is_probed(extent)
        {
            return Err(hidden(extent, why));
        }
        Ok(Function {
            symbol: extent.symbol.clone(),
            module: extent.module.clone(),
            address: extent.address,
            size: extent.size,
            instructions: decoded.into_iter().map(instruction).collect(),
        })
    }

    /// Whether a probe of any process has changed the text of a function.
    fn is_probed(&self, extent: &Extent) -> bool {
        let listed = kestrel_kernel::kprobes::list(self.known.host()).unwrap_or_default();
        let inside = |probe: &Listed| probe.address.wrapping_sub(extent.address) < extent.size;
        listed
            .iter()
            .any(|probe| inside(probe) && !probe.ftrace && !probe.disabled)
    }

    fn blacklisted(&self, address: u64) -> Option<Why> {
        let barred = self.known.blacklist();
        let range = barred.iter().find(|(range, _)| range.contains(&address));
        range.map(|(_, symbol)| Why::Blacklisted(symbol.clone()))
    }
}
