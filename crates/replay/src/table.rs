//! Maps of programs in memory: keys and values in regions that grow, found by hash; room for as many keys as the kernel's map would have.

use crate::memory::{Memory, Outside, RegionId};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use kestrel_bpf::helper::{EXIST, NOEXIST};
use kestrel_compiler::ir::{MapKind, MapSpec};
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};

/// First of the values that stand for maps in registers, where the kernel's program has addresses of maps; none is an address of memory here.
const HANDLES: u64 = 0xffff_0000_0000_0000;

/// A map of the kernel, emulated.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
    entries: u32,
    keys: RegionId,
    values: RegionId,
    places: Places,
}

/// Index of a map's elements.
#[derive(Debug)]
enum Places {
    /// By their index.
    Array,
    /// Wherever there was room.
    Hash {
        index: HashTable<u32>,
        /// For each place that was ever used, whether it is in use.
        live: Vec<bool>,
        free: Vec<u32>,
        /// Where new keys take the places of old ones.
        clock: Option<Clock>,
    },
}

/// Eviction of a full map's keys by the clock algorithm: the hand passes each key once that was looked up since it passed it last. The kernel's choice is as
/// rough.
#[derive(Debug, Default)]
struct Clock {
    /// For each place, whether its key was looked up since the hand passed it.
    used: Vec<Cell<bool>>,
    hand: usize,
}

impl Clock {
    fn touch(&self, place: u32) {
        if let Some(used) = self.used.get(place as usize) {
            used.set(true);
        }
    }

    /// The place whose key goes next; all are in use.
    fn evict(&mut self) -> u32 {
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.used.len().max(1);
            let used = self.used.get(place).is_some_and(|used| used.replace(false));
            if !used {
                return place as u32;
            }
        }
    }
}

/// Errors of map operations: negative errnos, as the kernel's helpers return them.
pub(crate) const EEXIST: i64 = -17;
pub(crate) const ENOENT: i64 = -2;
pub(crate) const E2BIG: i64 = -7;
pub(crate) const EINVAL: i64 = -22;

fn hash(key: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// Register value that stands for the map of a number.
pub(crate) fn handle(number: usize) -> u64 {
    HANDLES + number as u64
}

/// The number of the map that a register holds.
pub(crate) fn number(handle: u64) -> Option<usize> {
    usize::try_from(handle.checked_sub(HANDLES)?).ok()
}

impl Table {
    /// An empty map; arrays have all their elements, zeroes.
    pub(crate) fn new(spec: &MapSpec, memory: &mut Memory) -> Self {
        let (key_size, value_size) = (spec.key as usize, spec.value as usize);
        let array = matches!(spec.kind, MapKind::Array | MapKind::PerCpuArray);
        let evicts = matches!(spec.kind, MapKind::LruHash | MapKind::PerCpuLruHash);
        let bytes = if array {
            value_size * spec.entries as usize
        } else {
            0
        };
        Self {
            key_size,
            value_size,
            entries: spec.entries,
            keys: memory.add(0),
            values: memory.add(bytes),
            places: match array {
                true => Places::Array,
                false => Places::Hash {
                    index: HashTable::new(),
                    live: Vec::new(),
                    free: Vec::new(),
                    clock: evicts.then(Clock::default),
                },
            },
        }
    }

    /// The address of the first element's value.
    pub(crate) fn first(&self) -> u64 {
        self.values.address(0)
    }

    fn key<'m>(&self, memory: &'m Memory, place: u32) -> &'m [u8] {
        key_at(memory.region(self.keys), self.key_size, place)
    }

    #[inline]
    fn place(&self, memory: &Memory, key: &[u8]) -> Option<u32> {
        match &self.places {
            Places::Array => {
                let index = u32::from_le_bytes(*key.first_chunk()?);
                (index < self.entries).then_some(index)
            }
            Places::Hash { index, clock, .. } => {
                let keys = memory.region(self.keys);
                let same = |place: &u32| key_at(keys, self.key_size, *place) == key;
                let found = index.find(hash(key), same).copied();
                if let (Some(place), Some(clock)) = (found, clock) {
                    clock.touch(place);
                }
                found
            }
        }
    }

    fn value_address(&self, place: u32) -> u64 {
        self.values.address(place as usize * self.value_size)
    }

    /// The address of a key's value.
    #[inline]
    pub(crate) fn find(&self, memory: &Memory, key: u64) -> Result<Option<u64>, Outside> {
        let key = memory.bytes(key, self.key_size)?;
        Ok(self.place(memory, key).map(|place| self.value_address(place)))
    }

    /// `bpf_map_update_elem`: 0, or a negative errno.
    pub(crate) fn update(
        &mut self,
        memory: &mut Memory,
        key: u64,
        value: u64,
        flags: u64,
    ) -> Result<i64, Outside> {
        let bytes = memory.bytes(key, self.key_size)?;
        let known = self.place(memory, bytes);
        let place = match (known, flags & 3) {
            (Some(_), NOEXIST) => return Ok(EEXIST),
            (None, EXIST) => return Ok(ENOENT),
            (Some(place), _) => place,
            (None, _) => match self.insert(memory, key)? {
                Some(place) => place,
                None => return Ok(E2BIG),
            },
        };
        memory.copy(value, self.value_address(place), self.value_size)?;
        Ok(0)
    }

    /// Inserts a key that is not in the map; gives its place.
    fn insert(&mut self, memory: &mut Memory, key: u64) -> Result<Option<u32>, Outside> {
        let key = memory.bytes(key, self.key_size)?.to_vec();
        Ok(self.insert_key(memory, &key))
    }

    /// Evicts a key where the map is full and evicts (LRU maps).
    fn make_room(&mut self, memory: &Memory) {
        let entries = self.entries as usize;
        let Places::Hash {
            live,
            free,
            clock: Some(clock),
            ..
        } = &mut self.places
        else {
            return;
        };
        if free.is_empty() && live.len() >= entries {
            let place = clock.evict();
            let old = self.key(memory, place).to_vec();
            self.delete_key(memory, &old);
        }
    }

    fn insert_key(&mut self, memory: &mut Memory, key: &[u8]) -> Option<u32> {
        self.make_room(memory);
        let Places::Hash {
            index,
            live,
            free,
            clock,
        } = &mut self.places
        else {
            return None;
        };
        let place = match free.pop() {
            Some(place) => place,
            None if live.len() < self.entries as usize => {
                live.push(false);
                if let Some(clock) = clock {
                    clock.used.push(Cell::default());
                }
                live.len() as u32 - 1
            }
            None => return None,
        };
        live[place as usize] = true;
        // A key that was deleted leaves no mark for the next one at its place.
        if let Some(used) = clock.as_ref().and_then(|clock| clock.used.get(place as usize)) {
            used.set(false);
        }
        grow(memory, self.keys, self.key_size, place);
        grow(memory, self.values, self.value_size, place);
        let at = place as usize * self.key_size;
        if let Some(to) = memory
            .region_mut(self.keys)
            .and_then(|keys| keys.get_mut(at..at + self.key_size))
        {
            to.copy_from_slice(key);
        }
        let keys = memory.region(self.keys);
        index.insert_unique(hash(key), place, |place| {
            hash(key_at(keys, self.key_size, *place))
        });
        Some(place)
    }

    /// `bpf_map_delete_elem`: 0, or a negative errno.
    pub(crate) fn delete(&mut self, memory: &Memory, key: u64) -> Result<i64, Outside> {
        let key = memory.bytes(key, self.key_size)?.to_vec();
        Ok(self.delete_key(memory, &key))
    }

    fn delete_key(&mut self, memory: &Memory, key: &[u8]) -> i64 {
        let Places::Hash {
            index, live, free, ..
        } = &mut self.places
        else {
            return EINVAL;
        };
        let keys = memory.region(self.keys);
        let same = |place: &u32| key_at(keys, self.key_size, *place) == key;
        let Ok(entry) = index.find_entry(hash(key), same) else {
            return ENOENT;
        };
        let (place, _) = entry.remove();
        live[place as usize] = false;
        free.push(place);
        0
    }

    /// The number under which bytes (the frames of a stack) are kept: the same for the same bytes; none where there is no room for more.
    pub(crate) fn intern(&mut self, memory: &mut Memory, bytes: &[u8]) -> Option<u32> {
        if let Some(place) = self.place(memory, bytes) {
            return Some(place);
        }
        self.insert_key(memory, bytes)
    }

    /// Number of places that were ever used: they are numbered from 0.
    pub(crate) fn places(&self) -> u32 {
        match &self.places {
            Places::Array => self.entries,
            Places::Hash { live, .. } => live.len() as u32,
        }
    }

    /// The addresses of the key and the value at a place, where there is an element now.
    pub(crate) fn element(&self, place: u32) -> Option<(u64, u64)> {
        let there = match &self.places {
            Places::Array => place < self.entries,
            Places::Hash { live, .. } => live.get(place as usize).copied().unwrap_or(false),
        };
        let key = self.keys.address(place as usize * self.key_size);
        there.then(|| (key, self.value_address(place)))
    }

    /// The keys and values that are there.
    pub(crate) fn elements<'m>(&'m self, memory: &'m Memory) -> impl Iterator<Item = (Vec<u8>, &'m [u8])> {
        (0..self.places()).filter_map(|place| {
            let (_, value) = self.element(place)?;
            let key = match &self.places {
                Places::Array => place.to_le_bytes().to_vec(),
                Places::Hash { .. } => self.key(memory, place).to_vec(),
            };
            Some((key, memory.bytes(value, self.value_size).ok()?))
        })
    }

    /// The bytes that are kept under a number.
    pub(crate) fn interned<'m>(&self, memory: &'m Memory, number: u32) -> Option<&'m [u8]> {
        self.element(number)?;
        Some(self.key(memory, number))
    }

    /// Removes the keys that are not wanted, and returns them.
    pub(crate) fn retain(&mut self, memory: &Memory, mut wanted: impl FnMut(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let mut gone = Vec::new();
        for place in 0..self.places() {
            if self.element(place).is_some() {
                let key = self.key(memory, place).to_vec();
                if !wanted(&key) {
                    self.delete_key(memory, &key);
                    gone.push(key);
                }
            }
        }
        gone
    }

    /// Puts zeroes under a key, unless it has a value.
    pub(crate) fn put_zeroes(&mut self, memory: &mut Memory, key: &[u8]) {
        if self.place(memory, key).is_none()
            && let Some(place) = self.insert_key(memory, key)
            && let Ok(value) = memory.bytes_mut(self.value_address(place), self.value_size)
        {
            value.fill(0);
        }
    }
}

fn key_at(keys: &[u8], size: usize, place: u32) -> &[u8] {
    let at = place as usize * size;
    keys.get(at..at + size).unwrap_or_default()
}

/// Makes room up to the end of a place.
fn grow(memory: &mut Memory, region: RegionId, size: usize, place: u32) {
    if let Some(bytes) = memory.region_mut(region) {
        let end = (place as usize + 1) * size;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: MapKind, entries: u32) -> MapSpec {
        MapSpec {
            name: String::new(),
            kind,
            key: 8,
            value: 8,
            entries,
            flags: 0,
        }
    }

    #[test]
    fn old_keys_make_room_where_they_are_to() {
        let mut memory = Memory::new();
        let mut table = Table::new(&spec(MapKind::LruHash, 3), &mut memory);
        let key = memory.add(8).address(0);
        let mut put = |memory: &mut Memory, number: u64| {
            memory.store(key, number.to_le_bytes()).unwrap();
            assert_eq!(table.update(memory, key, key, 0), Ok(0));
            table.elements(memory).count()
        };
        let counts: Vec<usize> = (0..50).map(|number| put(&mut memory, number)).collect();
        assert_eq!(counts[..4], [1, 2, 3, 3]);
        assert_eq!(counts[49], 3);
        assert!(table.find(&memory, key).unwrap().is_some(), "the newest is there");
    }

    #[test]
    fn a_full_lru_map_keeps_keys_that_were_looked_up() {
        let mut memory = Memory::new();
        let mut table = Table::new(&spec(MapKind::LruHash, 3), &mut memory);
        let key = memory.add(8).address(0);
        let mut put = |memory: &mut Memory, number: u64| {
            memory.store(key, number.to_le_bytes()).unwrap();
            table.update(memory, key, key, 0).unwrap();
            // The first key is looked up after each change.
            memory.store(key, 0u64.to_le_bytes()).unwrap();
            table.find(memory, key).unwrap().is_some()
        };
        assert!((0..20).all(|number| put(&mut memory, number)));
    }

    #[test]
    fn keys_come_and_go_up_to_the_number_there_is_room_for() {
        let mut memory = Memory::new();
        let mut table = Table::new(&spec(MapKind::Hash, 3), &mut memory);
        let scratch = memory.add(16);
        let put = |memory: &mut Memory, key: u64, value: u64| {
            memory.store(scratch.address(0), key.to_le_bytes()).unwrap();
            memory.store(scratch.address(8), value.to_le_bytes()).unwrap();
            (scratch.address(0), scratch.address(8))
        };
        for (key, answer) in [(1, 0), (2, 0), (3, 0), (4, E2BIG), (2, 0)] {
            let (key, value) = put(&mut memory, key, key * 10);
            assert_eq!(table.update(&mut memory, key, value, 0), Ok(answer));
        }
        let (key, value) = put(&mut memory, 2, 7);
        assert_eq!(table.update(&mut memory, key, value, NOEXIST), Ok(EEXIST));
        assert_eq!(table.delete(&memory, key), Ok(0));
        assert_eq!(table.delete(&memory, key), Ok(ENOENT));
        assert_eq!(table.update(&mut memory, key, value, EXIST), Ok(ENOENT));
        assert_eq!(table.find(&memory, key), Ok(None));
        let (key, value) = put(&mut memory, 4, 40);
        assert_eq!(table.update(&mut memory, key, value, 0), Ok(0));
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = table
            .elements(&memory)
            .map(|(key, value)| (key, value.to_vec()))
            .collect();
        all.sort();
        let wanted = [(1u64, 10u64), (3, 30), (4, 40)]
            .map(|(k, v)| (k.to_le_bytes().to_vec(), v.to_le_bytes().to_vec()));
        assert_eq!(all, wanted);
    }
}
