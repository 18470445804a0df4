//! Functions of a file that its debug information describes for a program of several events: in one table of types, so that a type has one number at all
//! of them. What a map keeps at one event is read at another.

use super::{Executable, Executables};
use crate::debuginfo::Described;
use kestrel_bpf::btf::Btf;
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The functions of one file that events have asked for.
#[derive(Debug, Default)]
pub(super) struct DescribedFunctions {
    /// Descriptions that share a table.
    shared: BTreeSet<u64>,
    known: Option<Arc<Described>>,
    /// Events that were asked for since, each described by itself.
    new: BTreeSet<u64>,
    last: Option<(BTreeSet<u64>, Arc<Described>)>,
}

impl Executable {
    /// Descriptions of the functions that begin at these addresses, among others; types lie over the base, which is always the same.
    pub(crate) fn describe(&self, base: Option<&Arc<Btf>>, addresses: &[u64]) -> Option<Arc<Described>> {
        let info = self.debug_info()?;
        let mut functions = self.functions_described();
        if addresses.iter().all(|address| functions.shared.contains(address)) {
            return functions.known.clone();
        }
        let known = Arc::new(info.describe(base, addresses)?);
        functions.new.extend(addresses);
        functions.last = Some((addresses.iter().copied().collect(), known.clone()));
        Some(known)
    }

    /// Whether functions of it share a table of types.
    pub(crate) fn is_described(&self) -> bool {
        !self.functions_described().shared.is_empty()
    }

    /// Has all functions that were asked for share one table; `false` where they do already.
    fn share_types(&self, base: Option<&Arc<Btf>>) -> bool {
        let mut functions = self.functions_described();
        let new = std::mem::take(&mut functions.new);
        if new.is_subset(&functions.shared) {
            return false;
        }
        functions.shared.extend(new);
        // Debug information is not read twice for one event.
        let last = functions.last.take();
        let last = last.filter(|(addresses, _)| *addresses == functions.shared);
        functions.known = last.map(|(_, known)| known).or_else(|| {
            let all: Vec<u64> = functions.shared.iter().copied().collect();
            self.debug_info()?.describe(base, &all).map(Arc::new)
        });
        true
    }

    fn functions_described(&self) -> MutexGuard<'_, DescribedFunctions> {
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executables {
    /// Has the functions of each file that were described since the last call share one table of types with those before. Whether there were any: types
    /// have other numbers then.
    pub fn share_types(&self, base: Option<&Arc<Btf>>) -> bool {
        self.each(|file| file.share_types(base)).contains(&true)
    }

    /// The table of types of the one file whose functions share one; none where there are several.
    pub fn shared_types(&self) -> Option<Arc<Btf>> {
        let known = self.each(|file| file.functions_described().known.clone());
        let mut types = known.into_iter().flatten().map(|known| known.types.clone());
        let first = types.next()?;
        // A file may be known by several paths.
        types.all(|other| Arc::ptr_eq(&other, &first)).then_some(first)
    }

    fn each<T>(&self, of: impl Fn(&Executable) -> T) -> Vec<T> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|file| of(file)).collect()
    }
}
