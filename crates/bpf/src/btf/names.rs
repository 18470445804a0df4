//! A hash index from names to numbers, built in one pass over names that lie in the blob; it holds no strings itself.

/// Slots of (hash, number + 1); zero is empty. Equal names keep the order in which they were added.
#[derive(Debug)]
pub(super) struct NameIndex {
    slots: Vec<u64>,
    mask: usize,
}

impl NameIndex {
    /// An empty index with room for `count` names.
    pub(super) fn with_room(count: usize) -> Self {
        let size = (count.saturating_mul(2)).next_power_of_two().max(8);
        Self {
            slots: vec![0; size],
            mask: size - 1,
        }
    }

    /// Adds a name; more names than there is room for are forgotten.
    pub(super) fn add(&mut self, hash: u32, number: u32) {
        let mut at = hash as usize & self.mask;
        for _ in 0..=self.mask {
            if let Some(slot) = self.slots.get_mut(at)
                && *slot == 0
            {
                *slot = u64::from(hash) << 32 | u64::from(number) + 1;
                return;
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The numbers whose names have that hash, in the order they were added.
    pub(super) fn candidates(&self, hash: u32) -> impl Iterator<Item = u32> {
        let start = hash as usize & self.mask;
        (0..=self.mask)
            .map_while(move |step| {
                self.slots
                    .get((start + step) & self.mask)
                    .copied()
                    .filter(|slot| *slot != 0)
            })
            .filter(move |slot| (slot >> 32) as u32 == hash)
            .map(|slot| (slot as u32).wrapping_sub(1))
    }
}

/// Hash of a name that ends at its first zero byte or where `bytes` end (FNV-1a).
pub(super) fn hash(bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for &byte in bytes.iter().take_while(|byte| **byte != 0) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    // The low bits choose the slot: let the high ones take part.
    hash ^ hash >> 15
}
