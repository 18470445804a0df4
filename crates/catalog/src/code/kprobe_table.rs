//! The kernel's table of kprobes (`kprobe_table`) in its memory: the address of each `struct kprobe`; its members are read elsewhere.

use crate::error::{Error, Result};
use crate::facts::Facts;
use kestrel_bpf::btf::BtfKind;
use kestrel_kernel::kcore::Kcore;

/// `KPROBE_TABLE_SIZE` of the kernel's `kernel/kprobes.c`.
const BUCKETS: u64 = 64;
/// A list longer than this is one that changed while it was read.
const LONGEST: usize = 100_000;

/// The table, and where a probe's place in its lists lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    address: u64,
    node: u64,
}

impl Table {
    /// Finds the kernel's table of kprobes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where kallsyms does not name it, or types do not tell what is in it.
    pub(super) fn find(facts: &Facts) -> Result<Self> {
        let symbols = facts.symbols()?;
        let table = symbols
            .named("kprobe_table")
            .find(|s| s.module.is_none() && s.address != 0);
        let Some(table) = table else {
            return Err(Error::Unsupported {
                what: WHAT.to_owned(),
                why: "kallsyms does not name kprobe_table (CONFIG_KALLSYMS_ALL, kernel.kptr_restrict)"
                    .to_owned(),
            });
        };
        let types = facts.types()?;
        let node = types
            .find(BtfKind::Struct, "kprobe")
            .and_then(|probe| types.find_member(probe, "hlist"))
            .ok_or_else(no_types)?;
        Ok(Self {
            address: table.address,
            node: u64::from(node.offset()),
        })
    }

    /// Hands out the address of each `struct kprobe` in it.
    ///
    /// A probe that goes away meanwhile leaves memory that may be anything: one that cannot be read ends its list.
    ///
    /// # Errors
    /// When the table itself cannot be read.
    pub(super) fn each(&self, memory: &Kcore, mut with: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let mut seen = 0;
        for bucket in 0..BUCKETS {
            let mut node = word(memory, self.address + 8 * bucket)?;
            while node != 0 && seen < LONGEST {
                seen += 1;
                if with(node.wrapping_sub(self.node)).is_err() {
                    break;
                }
                let Ok(next) = word(memory, node) else { break };
                node = next;
            }
        }
        Ok(())
    }
}

const WHAT: &str = "the kernel's table of kprobes";

/// Why nothing can be read from it on a kernel with other types.
pub(super) fn no_types() -> Error {
    Error::Unsupported {
        what: WHAT.to_owned(),
        why: "the kernel's types do not describe struct kprobe".to_owned(),
    }
}

/// Eight bytes of memory.
pub(super) fn word(memory: &Kcore, address: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Four of them.
pub(super) fn half(memory: &Kcore, address: u64) -> Result<u32> {
    let mut bytes = [0; 4];
    memory.read(address, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
