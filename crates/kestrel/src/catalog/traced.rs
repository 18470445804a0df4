//! Which functions have a place for ftrace: by address where the kernel tells, else by name.

use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::tracefs::Tracefs;
use kestrel_kernel::{Host, Result};
use std::collections::HashSet;

/// The places of ftrace, as they were when read.
#[derive(Debug)]
pub(super) enum Traced {
    /// Sorted.
    Addresses(Vec<u64>),
    /// Names with their modules; kernels before 6.5.
    Names(HashSet<(Option<String>, String)>),
}

impl Traced {
    pub(super) fn read(host: &Host) -> Result<Self> {
        let tracefs = Tracefs::mount(host)?;
        if let Ok(functions) = tracefs.traceable_functions_with_addresses() {
            let mut addresses: Vec<u64> = functions.into_iter().filter_map(|f| f.address).collect();
            addresses.sort_unstable();
            return Ok(Self::Addresses(addresses));
        }
        let functions = tracefs.traceable_functions()?;
        Ok(Self::Names(
            functions.into_iter().map(|f| (f.module, f.name)).collect(),
        ))
    }

    /// Whether one lies in a function.
    pub(super) fn holds(&self, symbols: &Kallsyms, module: Option<&str>, address: u64, size: u64) -> bool {
        match self {
            Self::Addresses(addresses) => {
                let first = addresses.partition_point(|place| *place < address);
                addresses.get(first).is_some_and(|place| place - address < size)
            }
            // Of several names for one address ftrace lists one.
            Self::Names(names) => symbols
                .at_exactly(address)
                .any(|symbol| names.contains(&(module.map(str::to_owned), symbol.name.to_owned()))),
        }
    }
}
