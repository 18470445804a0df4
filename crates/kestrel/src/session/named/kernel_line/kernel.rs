//! The kernel that a line is read against: its symbols, what its functions take, and which forms its own reader of lines knows.

use super::place::LinePlace;
use kestrel_bpf::btf::{Btf, TypeId};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::code::{Code, LocationSpec};
use kestrel_catalog::facts::Facts;
use std::sync::Arc;

/// Resolution of a place: at a function's entry, inside of one, or at none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The first instruction, where arguments are in their registers.
    Entry,
    /// An instruction inside the function.
    Inside,
    /// The kernel has no such symbol, or has it in a module that is not loaded.
    Missing,
    /// Several functions have the name: their number.
    Several(usize),
}

/// Forms of lines that came to the kernel one after another, as its own description (`README` of tracefs) has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Arguments by their names, and `$argN` as the function's N-th parameter with its type (6.5, 6.6).
    pub parameters: bool,
    /// `$argN` at a return is that of the entry, and arguments beyond the most that a probe has are refused, no longer passed over (6.9).
    pub entry_arguments: bool,
    /// Fetches name types for what they reach (7.3): they may be longer since, and are not nested as deep.
    pub casts: bool,
}

impl Dialect {
    /// The most letters of an argument behind its name (`MAX_ARGSTR_LEN`).
    pub(super) fn longest_argument(self) -> usize {
        if self.casts { 255 } else { 63 }
    }

    /// How deep fetches from memory may lie in each other, where that has a bound of its own.
    pub(super) fn deepest(self) -> Option<u32> {
        self.casts.then_some(8)
    }

    /// The newest.
    pub const NEWEST: Self = Self {
        parameters: true,
        entry_arguments: true,
        casts: true,
    };

    fn of(description: &str) -> Self {
        Self {
            parameters: description.contains("<argname>"),
            entry_arguments: description
                .lines()
                .any(|line| line.contains("return probes support") && line.contains("$arg<N>")),
            casts: description.contains("(structname"),
        }
    }
}

/// Kernel facts against which lines are read.
pub trait Kernel {
    /// Address of a symbol.
    fn address(&self, symbol: &str) -> Option<u64>;
    /// Resolution of a place.
    fn resolve(&self, place: &LinePlace<'_>) -> Resolution;
    /// The address of a place that lies behind the end of its symbol's function.
    fn address_past_symbol(&self, place: &LinePlace<'_>) -> Option<u64>;
    /// The types that describe a function, and the number of its prototype among them.
    fn prototype(&self, function: &str) -> Option<(Arc<Btf>, TypeId)>;
    /// The kernel's own types.
    fn types(&self) -> Option<Arc<Btf>>;
    /// The forms that it knows.
    fn dialect(&self) -> Dialect;
}

impl Kernel for Catalog {
    fn address(&self, symbol: &str) -> Option<u64> {
        let symbols = self.symbols().ok()?;
        match symbol.split_once(':') {
            Some((module, name)) => symbols.named(name).find(|symbol| symbol.module == Some(module)),
            None => symbols.named(symbol).next(),
        }
        .map(|symbol| symbol.address)
    }

    fn resolve(&self, place: &LinePlace<'_>) -> Resolution {
        if place.address.is_some() {
            return Resolution::Inside;
        }
        let Ok(symbols) = self.symbols() else {
            return Resolution::Missing;
        };
        let named = symbols.named(place.symbol).filter(|symbol| symbol.is_text());
        let mut addresses: Vec<u64> = named
            .filter(|symbol| place.module.is_none_or(|module| symbol.module == Some(module)))
            .map(|symbol| symbol.address)
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        match (addresses.len(), place.offset) {
            (0, _) => Resolution::Missing,
            (1, 0) => Resolution::Entry,
            (1, _) => {
                let wanted = match self.address_past_symbol(place) {
                    Some(address) => LocationSpec::Address(address),
                    None => LocationSpec::Symbol {
                        module: place.module.map(str::to_owned),
                        symbol: place.symbol.to_owned(),
                        offset: Some(place.offset),
                    },
                };
                let located = Code::new(self).and_then(|code| code.locate(&wanted));
                // Whichever function it is the entry of.
                let entry = located.is_ok_and(|(function, instruction)| {
                    function.probed(function.address) == function.probed(instruction.address)
                });
                if entry {
                    Resolution::Entry
                } else {
                    Resolution::Inside
                }
            }
            (several, _) => Resolution::Several(several),
        }
    }

    fn address_past_symbol(&self, place: &LinePlace<'_>) -> Option<u64> {
        let symbols = self.symbols().ok()?;
        let mut named = symbols.named(place.symbol).filter(|symbol| symbol.is_text());
        let symbol = named.find(|symbol| place.module.is_none_or(|module| symbol.module == Some(module)))?;
        let end = symbols.next_address(symbol.address)?;
        let address = symbol.address.checked_add(place.offset)?;
        (address >= end).then_some(address)
    }

    fn prototype(&self, function: &str) -> Option<(Arc<Btf>, TypeId)> {
        let typed = self.typed_function(None, function).ok()?;
        let proto = typed.types.function(function)?.proto_id;
        Some((typed.types, proto))
    }

    fn types(&self) -> Option<Arc<Btf>> {
        Facts::types(self).ok()
    }

    fn dialect(&self) -> Dialect {
        let description = self.tracefs().and_then(|tracefs| Ok(tracefs.read("README")?));
        description.map_or(Dialect::NEWEST, |description| Dialect::of(&description))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_description_says_which_forms_it_knows() {
        let old = " fetcharg: %<register>, $stack, $retval, $comm, $arg<N>,\n";
        assert_eq!(
            Dialect::of(old),
            Dialect {
                parameters: false,
                entry_arguments: false,
                casts: false,
            }
        );
        let new = "<argname>[->field[->field|.field...]],\n kernel return probes support: $retval, $arg<N>, $comm\n";
        assert_eq!(
            Dialect::of(new),
            Dialect {
                casts: false,
                ..Dialect::NEWEST
            }
        );
        let newest = format!("[(structname[,field])]{new}");
        assert_eq!(Dialect::of(&newest), Dialect::NEWEST);
    }
}
