//! Open intervals of threads: begun and not ended, the last of each thread at hand, the others in a map.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A number, and a thread.
pub(crate) type Key = (u32, u64);

/// Values by key. Memory goes with the number of values that are there.
#[derive(Clone, Debug)]
pub(crate) struct Open<T> {
    /// A key is here or in `others`, never in both.
    recent: Vec<Option<(Key, T)>>,
    others: HashMap<Key, T, RandomState>,
}

const RECENT: usize = 256;

fn slot((number, thread): Key) -> usize {
    (thread ^ thread >> 32 ^ u64::from(number) << 2) as usize % RECENT
}

impl<T: Clone> Default for Open<T> {
    fn default() -> Self {
        Self {
            recent: vec![None; RECENT],
            others: HashMap::default(),
        }
    }
}

impl<T> Open<T> {
    /// Puts a value in; whether it takes the place of another.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key, value: T) -> bool {
        match self.recent[slot(key)].replace((key, value)) {
            Some((before, _)) if before == key => true,
            other => {
                if let Some((key, value)) = other {
                    self.others.insert(key, value);
                }
                !self.others.is_empty() && self.others.remove(&key).is_some()
            }
        }
    }

    /// Takes a value out.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        match self.recent[slot(key)].take_if(|(known, _)| *known == key) {
            Some((_, value)) => Some(value),
            None if self.others.is_empty() => None,
            None => self.others.remove(&key),
        }
    }

    /// The keys of all values, in no order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        let recent = self.recent.iter().flatten().map(|(key, _)| *key);
        recent.chain(self.others.keys().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..2u32, 0..600u64, any::<bool>()), 0..3000)) {
            let (mut open, mut map) = (Open::default(), BTreeMap::new());
            for (step, (number, thread, puts)) in steps.into_iter().enumerate() {
                let key = (number, thread);
                match puts {
                    true => prop_assert_eq!(open.insert(key, step), map.insert(key, step).is_some()),
                    false => prop_assert_eq!(open.remove(key), map.remove(&key)),
                }
            }
            let mut keys: Vec<Key> = open.keys().collect();
            keys.sort_unstable();
            prop_assert_eq!(keys, map.into_keys().collect::<Vec<_>>());
        }
    }
}
