//! Functions that ftrace can hook: by address where the kernel tells, else by name.

use kestrel_kernel::index::Traceable;
use kestrel_kernel::kallsyms::Kallsyms;

/// The places of ftrace, as they were when read.
#[derive(Debug)]
pub(super) enum Traced {
    /// Sorted.
    Addresses(Vec<u64>),
    /// The kernel tells names alone (before 6.5).
    Names,
}

impl Traced {
    pub(super) fn of(functions: &Traceable) -> Self {
        functions.addresses().map_or(Self::Names, Self::Addresses)
    }

    /// Whether one lies in a function.
    pub(super) fn holds(
        &self,
        functions: &Traceable,
        symbols: &Kallsyms,
        module: Option<&str>,
        address: u64,
        size: u64,
    ) -> bool {
        match self {
            Self::Addresses(addresses) => {
                let first = addresses.partition_point(|place| *place < address);
                addresses.get(first).is_some_and(|place| place - address < size)
            }
            // Of several names for one address ftrace lists one.
            Self::Names => symbols
                .at_exactly(address)
                .any(|symbol| functions.has_in(module, symbol.name)),
        }
    }
}
