//! The few searches that are answered without an index, and what they found.

use super::raw::TypeId;
use std::sync::{Mutex, PoisonError};

/// Searches after which an index is made.
const FEW: usize = 32;

/// Results of earlier searches by name, so that each name is searched once.
#[derive(Debug, Default)]
pub(super) struct Searches(Mutex<Vec<(Box<str>, Vec<TypeId>)>>);

impl Searches {
    /// Result of a search for a name, made now or before; `None` when this is not one of the few names that need no index.
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
