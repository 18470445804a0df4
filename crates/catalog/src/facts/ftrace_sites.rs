//! The functions that ftrace can hook: by address where the kernel lists addresses, else by name.

use kestrel_kernel::index::Traceable;
use kestrel_kernel::kallsyms::Kallsyms;

/// The kernel's list of functions that ftrace can hook, as it was when read.
#[derive(Debug)]
pub(super) enum Traced {
    /// Addresses of ftrace's call sites, ascending.
    Addresses(Vec<u64>),
    /// The list has names only (before Linux 6.5).
    Names,
}

impl Traced {
    pub(super) fn of(functions: &Traceable) -> Self {
        functions.addresses().map_or(Self::Names, Self::Addresses)
    }

    /// Whether ftrace can hook the function of `size` bytes at `address`: whether a call site lies in it, or the list has its name.
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
            // Several symbols may share the address, and ftrace lists one of them.
            Self::Names => symbols
                .at_exactly(address)
                .any(|symbol| functions.has_in(module, symbol.name)),
        }
    }
}
