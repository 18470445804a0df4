//! The numbers of a BTF directory: the offset of each type, and named types by hash.

use super::raw::u32_at;
use bytes::Bytes;
use std::ops::Range;

/// Numbers of 32 bits: computed here, or slices of a directory that was kept.
#[derive(Debug)]
pub(super) enum Numbers {
    Own(Vec<u32>),
    Kept(Bytes),
}

impl Numbers {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(numbers) => numbers.len(),
            Self::Kept(bytes) => bytes.len() / 4,
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<u32> {
        match self {
            Self::Own(numbers) => numbers.get(at).copied(),
            Self::Kept(bytes) => u32_at(bytes, at.checked_mul(4)?),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

/// Bytes before the numbers.
const HEAD: usize = 8;

/// Parses a directory: offsets of types, and their order by hash. `None` for a directory that does not fit the blob.
pub(super) fn read(directory: &Bytes, types: &Range<usize>) -> Option<(Numbers, Numbers)> {
    let (count, named) = (u32_at(directory, 0)? as usize, u32_at(directory, 4)? as usize);
    let middle = count.checked_mul(4)?.checked_add(HEAD)?;
    let end = named.checked_mul(4)?.checked_add(middle)?;
    if directory.len() != end || named > count {
        return None;
    }
    let offsets = Numbers::Kept(directory.slice(HEAD..middle));
    let mut last = None;
    for offset in offsets.iter() {
        if !types.contains(&(offset as usize)) || last.is_some_and(|last| last >= offset) {
            return None;
        }
        last = Some(offset);
    }
    (offsets.get(0).map(|first| first as usize) == Some(types.start))
        .then(|| (offsets, Numbers::Kept(directory.slice(middle..end))))
}
