//! Functions of a file that were described by its debug information so far, in one table of types: a type has one number at all events of a program, whose
//! maps may keep it at one event and have it read at another.

use super::{Executable, Executables};
use crate::debuginfo::Described;
use kestrel_bpf::btf::Btf;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

/// The functions of one file.
#[derive(Debug, Default)]
pub(super) struct DescribedFunctions {
    addresses: BTreeSet<u64>,
    known: Option<Arc<Described>>,
    /// How often they were described: each time the types get other numbers.
    times: u64,
}

impl Executable {
    /// Descriptions of the functions that begin at these addresses and of all that were asked for before; types lie over the base, which is always the same.
    pub(crate) fn describe(&self, base: Option<&Arc<Btf>>, addresses: &[u64]) -> Option<Arc<Described>> {
        let info = self.debug_info()?;
        let mut functions = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let before = functions.addresses.len();
        functions.addresses.extend(addresses);
        if functions.times == 0 || functions.addresses.len() > before {
            let all: Vec<u64> = functions.addresses.iter().copied().collect();
            functions.times += 1;
            functions.known = info.describe(base, &all).map(Arc::new);
        }
        functions.known.clone()
    }

    /// Whether functions of it were described.
    pub(crate) fn is_described(&self) -> bool {
        let functions = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        functions.known.is_some()
    }
}

impl Executables {
    /// How often functions were described by debug information: where that has grown, types have other numbers than before.
    pub fn descriptions(&self) -> u64 {
        self.each(|functions| functions.times).into_iter().sum()
    }

    /// The types of the one file whose functions were described; none where there are several.
    pub fn described_types(&self) -> Option<Arc<Btf>> {
        let known = self.each(|functions| functions.known.clone());
        let mut types = known.into_iter().flatten().map(|known| known.types.clone());
        let first = types.next()?;
        // A file may be known by several paths.
        types.all(|other| Arc::ptr_eq(&other, &first)).then_some(first)
    }

    fn each<T>(&self, of: impl Fn(&DescribedFunctions) -> T) -> Vec<T> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let functions = known.values().map(|file| {
            let functions = file.described.lock().unwrap_or_else(PoisonError::into_inner);
            of(&functions)
        });
        functions.collect()
    }
}
