//! Canonical names of events that have several: a function with aliases, an instruction by name and by address; nothing is resolved here.
//!
//! ```text
//!   kprobe:__x64_sys_getppid ─┐
//!   kprobe:0xffffffff81234560 ├─► kprobe:__do_sys_getppid       the name that ftrace lists, where one function has it
//!   kprobe:vmlinux:__do_…+4  ─┘
//!   kprobe:vfs_read+0xb:post ───► kprobe:0xffffffff8156789b:post
//! ```

use super::kind::EventKind;
use super::lookup::Catalog;
use super::phase::Phase;
use super::{function, jprobe};
use crate::code::{Code, Function, Instruction, LocationSpec};
use crate::error::Result;

impl Catalog {
    /// Canonical name shared by all names of a probe at an instruction.
    pub(super) fn canonical_name_at(
        &self,
        kind: &str,
        function: &Function,
        instruction: &Instruction,
        phase: Phase,
    ) -> String {
        // A fault is at its own address; a probe on a function's beginning is behind the `endbr64`.
        let address = match phase {
            Phase::Fault => instruction.address,
            _ => function.probed(instruction.address),
        };
        let suffix = phase.suffix();
        let entry = suffix.is_empty() && address == function.probed(function.address);
        match self.listed_at(function.address).filter(|_| entry) {
            Some(name) => format!("{kind}:{name}"),
            None => format!("{kind}:{address:#x}{suffix}"),
        }
    }

    /// The name by which ftrace lists the function at an address, if no other function has it.
    fn listed_at(&self, address: u64) -> Option<&str> {
        let (functions, symbols) = (self.functions().ok()?, self.symbols().ok()?);
        let alone = |name: &str| {
            let mut all = symbols.named(name).filter(|symbol| symbol.is_text());
            all.all(|symbol| symbol.address == address)
        };
        let mut names = symbols.at_exactly(address).filter(|symbol| symbol.is_text());
        names
            .find(|symbol| functions.has_in(symbol.module, symbol.name) && alone(symbol.name))
            .map(|symbol| symbol.name)
    }

    /// Canonical name of an existing event: its own name, where that is the only one.
    pub fn canonical_name(&self, event: &str) -> String {
        self.probed_at(event)
            .ok()
            .flatten()
            .unwrap_or_else(|| event.to_owned())
    }

    fn probed_at(&self, event: &str) -> Result<Option<String>> {
        let kinds = [function::KPROBE.name(), function::KRETPROBE.name(), jprobe::NAME];
        let Some((kind, rest)) = event.split_once(':').filter(|(kind, _)| kinds.contains(kind)) else {
            return Ok(None);
        };
        let behind = Phase::BEHIND
            .into_iter()
            .find_map(|phase| Some((phase, rest.strip_suffix(phase.suffix())?)));
        let (phase, place) = behind.unwrap_or((Phase::Plain, rest));
        if phase == Phase::Plain && self.is_listed(place)? {
            return Ok(None);
        }
        let wanted: LocationSpec = place.parse()?;
        let (function, instruction) = Code::new(self)?.locate(&wanted)?;
        Ok(Some(self.canonical_name_at(kind, &function, &instruction, phase)))
    }
}
