//! An interpreter of programs with memory, maps and helpers made up for tests; it is no verifier and meets no kernel.
//!
//! A [`Machine`] owns memory, maps and an [`Environment`]; [`Machine::run`] runs a program on it to its exit. Behaviour that the
//! verifier would refuse on the path taken (an access outside of a pointer's memory, a register or stack byte
//! never written, a helper's argument missing) is a [`Fault`]. [`Machine::run_hooked`] calls back before every
//! instruction, those of functions that helpers call among them; the callback may run another program on the same machine, as an interrupt would.
//!
//! ```
//! use kestrel_bpf::{code::MapRef, interp::{Machine, MapKind}, text};
//! let mut machine = Machine::new();
//! let counts = machine.add_map(MapKind::Array { entries: 1 }, 4, 8);
//! let code = text::parse("
//!     r1 = map_value[0] +0
//!     r2 = 5
//!     lock *(u64 *)(r1 +0) += r2
//!     r0 = 0
//!     exit", &[])?;
//! machine.run(&code, &[])?;
//! machine.run(&code, &[])?;
//! assert_eq!(machine.value_u64(counts, 0), Some(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod environment;
mod fault;
mod helpers;
mod map;
mod memory;
mod run;

pub use environment::Environment;
pub use fault::{Fault, Reason};
pub use helpers::Arguments;
pub use map::MapKind;
pub use memory::Space;

use crate::helper::Helper;
use helpers::{HelperFn, KfuncFn};
use map::Map;
use memory::Memory;
use std::collections::HashMap;
use std::rc::Rc;

/// A processor with its memory, for tests.
pub struct Machine {
    /// The environment that helpers report: time, task, cpu, stacks.
    pub environment: Environment,
    /// Limit of a run's instructions, those of functions that helpers call among them.
    pub max_steps: u64,
    /// Whether programs may read kernel memory directly, as through trusted BTF pointers (`tp_btf`, `fentry`).
    pub direct_kernel_reads: bool,
    memory: Memory,
    maps: Vec<Map>,
    helpers: HashMap<Helper, HelperFn>,
    kfuncs: HashMap<String, KfuncFn>,
    preempt_depth: u32,
    preempt_pairs: u64,
    interrupts_off: u64,
    steps: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("environment", &self.environment)
            .field("maps", &self.maps.len())
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// A machine without maps, with the helpers of [`crate::helper`] that need no kernel.
    pub fn new() -> Self {
        Self {
            environment: Environment::default(),
            max_steps: 1_000_000,
            direct_kernel_reads: false,
            memory: Memory::default(),
            maps: Vec::new(),
            helpers: helpers::default_helpers(),
            kfuncs: helpers::default_kfuncs(),
            preempt_depth: 0,
            preempt_pairs: 0,
            interrupts_off: 0,
            steps: 0,
        }
    }

    /// Puts `bytes` at `address`, as kernel or user memory.
    pub fn add_memory(&mut self, space: Space, address: u64, bytes: &[u8]) {
        self.memory.insert(space, address, bytes.to_vec());
    }

    /// Reads memory as the test, not as a program: no permissions asked.
    pub fn read(&self, address: u64, length: usize) -> Result<Vec<u8>, Reason> {
        Ok(self.memory.slice(address, length as u64)?.to_vec())
    }

    /// Writes memory as the test.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Reason> {
        self.memory.fill(address, bytes)
    }

    /// Gives a helper another implementation. It may look at the machine and write its memory.
    pub fn set_helper(
        &mut self,
        helper: Helper,
        body: impl Fn(&mut Self, Arguments) -> Result<u64, Reason> + 'static,
    ) {
        self.helpers.insert(helper, Rc::new(body));
    }

    /// Gives a kernel function an implementation.
    pub fn set_kfunc(
        &mut self,
        name: &str,
        body: impl Fn(&mut Self, Arguments) -> Result<u64, Reason> + 'static,
    ) {
        self.kfuncs.insert(name.to_owned(), Rc::new(body));
    }

    /// Number of times that preemption was switched off, and its depth now.
    pub fn preemption(&self) -> (u64, u32) {
        (self.preempt_pairs, self.preempt_depth)
    }

    /// Instructions executed so far, by all runs.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests;
