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
        let size = (count.saturating_add(count / 4)).next_power_of_two().max(8);
        Self {
            slots: vec![0; size],
            mask: size - 1,
        }
    }

    /// Adds a name; names beyond the room are dropped.
    pub(super) fn add(&mut self, hash: u32, number: u32) {
        let mut at = hash as usize & self.mask;
        for _ in 0..=self.mask {
            if let Some(slot) = self.slots.get_mut(at)
                && *slot == 0
            {
                *slot = (u64::from(hash) << 32) | (u64::from(number) + 1);
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

/// Hash of a name that ends at its first zero byte or where `bytes` end; eight bytes a step.
pub(super) fn hash(bytes: &[u8]) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut hash = 0_u64;
    let mut rest = bytes;
    loop {
        let (word, ended) = match rest.split_first_chunk::<8>() {
            Some((chunk, after)) => {
                rest = after;
                let word = u64::from_le_bytes(*chunk);
                // The lowest bit set marks the first zero byte.
                let zeros = word.wrapping_sub(ONES) & !word & HIGH;
                if zeros == 0 {
                    (word, false)
                } else {
                    (word & ((zeros & zeros.wrapping_neg()) >> 7).wrapping_sub(1), true)
                }
            }
            None => {
                let mut chunk = [0; 8];
                for (to, from) in chunk.iter_mut().zip(rest.iter().take_while(|byte| **byte != 0)) {
                    *to = *from;
                }
                (u64::from_le_bytes(chunk), true)
            }
        };
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if ended {
            return (hash >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_hashes_alike_with_anything_behind_its_end() {
        for name in [
            "",
            "a",
            "sevenby",
            "eight_by",
            "nine_byte",
            "sixteen_bytes_xx",
            "seventeen_bytes_x",
        ] {
            let expected = hash(name.as_bytes());
            for tail in [
                "\0",
                "\0x",
                "\0\0\0\0\0\0\0\0",
                "\0other_name\0",
                "\0\x01\x01\x01\x01\x01\x01\x01",
            ] {
                assert_eq!(
                    hash(format!("{name}{tail}").as_bytes()),
                    expected,
                    "{name} {tail:?}"
                );
            }
        }
    }
}
