//! Search for a name without an index, for tools that run briefly and ask for a handful of names.
//!
//! The name is looked for among the strings, then its offsets among the names of the types: some 0.2 ms for a kernel's BTF, against
//! 3 to 12 ms to index it, most of which is new memory. The same few names are asked for again and again, so results are kept.

use super::Btf;
use super::raw::{TypeId, u32_at};
use super::types::BtfKind;

impl Btf {
    /// The types of this blob that may be of that name, in order.
    pub(super) fn scan_types(&self, name: &str) -> Vec<TypeId> {
        let offsets = self.name_offsets(name);
        let labels = self.ids().zip(self.labels());
        labels
            .filter(|(_, label)| offsets.contain(**label))
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
            let (kind, size) = match BtfKind::of_info(info) {
                Some(kind @ BtfKind::Enum) => (kind, 8),
                Some(kind @ BtfKind::Enum64) => (kind, 12),
                _ => return false,
            };
            let values = record
                .get(super::raw::TYPE..super::raw::TYPE + kind.tail(info as usize & 0xffff))
                .unwrap_or(&[]);
            values
                .chunks_exact(size)
                .any(|value| u32_at(value, 0).is_some_and(|name| offsets.contain(name)))
        };
        self.ids().filter(|id| has(*id)).collect()
    }

    /// All offsets at which a string reads as `name`, ascending; ends of longer strings are among them, because names may share them.
    fn name_offsets(&self, name: &str) -> Offsets {
        let mut needle = name.as_bytes().to_vec();
        needle.push(0);
        let blobs = std::iter::successors(Some(self), |btf| btf.base.as_deref());
        let found = blobs.flat_map(|btf| {
            memchr::memmem::find_iter(btf.own_strings(), &needle).map(|at| btf.first_string + at as u32)
        });
        Offsets::new(found.collect())
    }
}

/// A set of string offsets, with a filter that most other offsets do not pass.
struct Offsets {
    sorted: Vec<u32>,
    /// Bit n is set if n are the lowest six bits of an offset in the set.
    filter: u64,
}

impl Offsets {
    fn new(mut offsets: Vec<u32>) -> Self {
        offsets.sort_unstable();
        let filter = offsets
            .iter()
            .fold(0, |filter, offset| filter | 1 << (offset & 63));
        Self {
            sorted: offsets,
            filter,
        }
    }

    fn contain(&self, offset: u32) -> bool {
        self.filter >> (offset & 63) & 1 == 1 && self.sorted.binary_search(&offset).is_ok()
    }
}
