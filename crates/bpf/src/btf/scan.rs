//! Finding a name without an index: a short-lived tool asks for a handful, and an index costs more memory than time.
//!
//! The name is looked for among the strings, then its offsets among the types: some 0.5 ms for a kernel, against 3 to
//! 12 ms (the memory being new) to index it.

use super::{Btf, Kind, TypeId, u32_at};
use std::sync::atomic::{AtomicU32, Ordering};

/// Searches after which an index is made.
const FEW: u32 = 12;

/// Counts searches.
#[derive(Debug, Default)]
pub(super) struct Searches(AtomicU32);

impl Searches {
    /// Whether the next search is one of the few that need no index.
    pub(super) fn are_few(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < FEW
    }
}

impl Btf {
    /// The types of this blob that may be of that name, in order.
    pub(super) fn scan_types(&self, name: &str) -> Vec<TypeId> {
        let offsets = self.name_offsets(name);
        let named = |at: u32| u32_at(&self.data, at as usize).is_some_and(|name| contains(&offsets, name));
        self.ids()
            .zip(&self.offsets)
            .filter(|(_, at)| named(**at))
            .map(|(id, _)| id)
            .collect()
    }

    /// The enumerations of this blob that may have an enumerator of that name, in order.
    pub(super) fn scan_enumerations(&self, name: &str) -> Vec<TypeId> {
        let offsets = self.name_offsets(name);
        let has = |id: TypeId| {
            let Some((_, record)) = self.record(id) else {
                return false;
            };
            let info = u32_at(record, 4).unwrap_or(0);
            let (kind, size) = match Kind::of_info(info) {
                Some(kind @ Kind::Enum) => (kind, 8),
                Some(kind @ Kind::Enum64) => (kind, 12),
                _ => return false,
            };
            let values = record
                .get(super::TYPE..super::TYPE + kind.tail(info as usize & 0xffff))
                .unwrap_or(&[]);
            values
                .chunks_exact(size)
                .any(|value| u32_at(value, 0).is_some_and(|name| contains(&offsets, name)))
        };
        self.ids().filter(|id| has(*id)).collect()
    }

    /// Every offset at which a string reads as `name`, in order; ends of longer strings are among them.
    fn name_offsets(&self, name: &str) -> Vec<u32> {
        let mut needle = name.as_bytes().to_vec();
        needle.push(0);
        let blobs = std::iter::successors(Some(self), |btf| btf.base.as_deref());
        let found = blobs.flat_map(|btf| {
            memchr::memmem::find_iter(btf.own_strings(), &needle).map(|at| btf.first_string + at as u32)
        });
        let mut offsets: Vec<u32> = found.collect();
        offsets.sort_unstable();
        offsets
    }
}

fn contains(offsets: &[u32], name: u32) -> bool {
    let range = offsets.first().zip(offsets.last());
    range.is_some_and(|(first, last)| *first <= name && name <= *last) && offsets.binary_search(&name).is_ok()
}
