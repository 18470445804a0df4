//! A cache of the first searches for types by name: a few are faster without an index over all names, which is made for more.

use super::raw::TypeId;
use std::sync::{Mutex, PoisonError};

/// Searches after which an index is made.
const FEW: usize = 32;

/// Results of earlier searches by name, so that each name is searched once.
#[derive(Debug, Default)]
pub(super) struct Searches(Mutex<Vec<(Box<str>, Vec<TypeId>)>>);

impl Searches {
    /// The types of a name, from the cache or by `search`; `None` once [`FEW`] names have been searched: an index is worth its cost then.
    pub(super) fn find(&self, name: &str, search: impl FnOnce() -> Vec<TypeId>) -> Option<Vec<TypeId>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(known, _)| **known == *name) {
            return Some(found.clone());
        }
        if known.len() >= FEW {
            return None;
        }
        let found = search();
        known.push((name.into(), found.clone()));
        Some(found)
    }
}
