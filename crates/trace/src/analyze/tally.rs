//! Counts by a key of which few are frequent at a time: those are kept where no search is needed.

use std::collections::BTreeMap;

/// Counts under construction.
#[derive(Clone, Debug)]
pub(super) struct Tally<K> {
    /// Keys seen last and what was counted since, by the low bits of a number of theirs.
    recent: Vec<(K, u64)>,
    counts: BTreeMap<K, u64>,
}

/// Keys that are kept at hand.
const RECENT: usize = 256;

impl<K: Copy + Default + Ord> Default for Tally<K> {
    fn default() -> Self {
        Self {
            recent: vec![(K::default(), 0); RECENT],
            counts: BTreeMap::new(),
        }
    }
}

impl<K: Copy + Ord> Tally<K> {
    /// Counts a key; `place` is a number of it that differs between keys.
    #[inline]
    pub(super) fn add(&mut self, key: K, place: u32) {
        let (known, count) = &mut self.recent[place as usize % RECENT];
        if *known == key {
            *count += 1;
        } else {
            let (before, counted) = (std::mem::replace(known, key), std::mem::replace(count, 1));
            self.put_away(before, counted);
        }
    }

    fn put_away(&mut self, key: K, count: u64) {
        if count > 0 {
            *self.counts.entry(key).or_default() += count;
        }
    }

    /// The counts by key.
    pub(super) fn finish(mut self) -> BTreeMap<K, u64> {
        for (key, count) in std::mem::take(&mut self.recent) {
            self.put_away(key, count);
        }
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tally_counts_as_a_map_does(keys in prop::collection::vec((0..3u32, 0..600u32), 0..2000)) {
            let (mut tally, mut counts) = (Tally::default(), BTreeMap::new());
            for key in keys {
                tally.add(key, key.1);
                *counts.entry(key).or_default() += 1;
            }
            prop_assert_eq!(tally.finish(), counts);
        }
    }
}
