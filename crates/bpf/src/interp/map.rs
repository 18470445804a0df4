//! Maps: arrays, hashes, their per-CPU kinds, program arrays and rings of events, each value a region of its own.

use super::Machine;
use super::fault::Reason;
use super::memory::{Memory, Space};
use crate::code::{Code, MapRef};
use crate::helper;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Kinds of maps that the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields speak for themselves")]
pub enum MapKind {
    /// Values at indexes; all exist.
    Array { entries: u32 },
    /// An array with a value per CPU.
    PerCpuArray { entries: u32 },
    /// An array that programs only read.
    ReadOnlyArray { entries: u32 },
    /// Values by key; `entries` at most.
    Hash { entries: u32 },
    /// A hash table with a value per CPU.
    PerCpuHash { entries: u32 },
    /// A hash table in which a new key takes the place of the oldest one where there is no room (the kernel takes one that was not used for long, roughly).
    LruHash { entries: u32 },
    /// An LRU hash table with a value per CPU.
    PerCpuLruHash { entries: u32 },
    /// Programs for tail calls.
    ProgramArray { entries: u32 },
    /// A stream of records: a ring buffer or perf event array.
    RingBuffer,
    /// Stacks by number.
    StackTrace { entries: u32 },
}

pub(super) struct Map {
    pub(super) kind: MapKind,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    /// Address of each value, by key and CPU.
    pub(super) values: BTreeMap<(Vec<u8>, u32), u64>,
    pub(super) programs: BTreeMap<u32, Rc<Code>>,
    pub(super) events: Vec<Vec<u8>>,
}

/// The kernel's answers, as helpers give them.
const ENOENT: i64 = -2;
const E2BIG: i64 = -7;
const EEXIST: i64 = -17;
const EINVAL: i64 = -22;

/// Base of the addresses of map handles in registers; no memory is mapped there.
const HANDLES: u64 = 0xfffe_0000_0000_0000;

pub(super) fn handle(map: MapRef) -> u64 {
    HANDLES + u64::from(map.0) * 0x1000
}

impl Map {
    /// The address of the value at `key`, made if the map is of a kind where all values exist.
    pub(super) fn find(&mut self, memory: &mut Memory, key: &[u8], cpu: u32) -> Option<u64> {
        let cpu = if self.per_cpu() { cpu } else { 0 };
        if let Some(entries) = self.array_entries() {
            let index = u32::from_le_bytes(*key.first_chunk()?);
            if index >= entries {
                return None;
            }
            let (space, size) = (self.space(), u64::from(self.value_size));
            let make = || memory.allocate(space, size);
            return Some(*self.values.entry((key.to_vec(), cpu)).or_insert_with(make));
        }
        if !self.per_cpu() {
            return self.values.get(&(key.to_vec(), 0)).copied();
        }
        // A key that exists on one CPU exists on all.
        let exists = self
            .values
            .range((key.to_vec(), 0)..=(key.to_vec(), u32::MAX))
            .next()
            .is_some();
        exists.then(|| {
            let size = u64::from(self.value_size);
            *self
                .values
                .entry((key.to_vec(), cpu))
                .or_insert_with(|| memory.allocate(Space::Value, size))
        })
    }

    /// `bpf_map_update_elem`: 0, or a negative errno.
    pub(super) fn update(
        &mut self,
        memory: &mut Memory,
        key: &[u8],
        value: &[u8],
        flags: u64,
        cpu: u32,
    ) -> i64 {
        if flags > helper::EXIST {
            return EINVAL;
        }
        let found = self.find(memory, key, cpu);
        // Arrays look at the index before they look at flags.
        let is_hash = matches!(
            self.kind,
            MapKind::Hash { .. }
                | MapKind::PerCpuHash { .. }
                | MapKind::LruHash { .. }
                | MapKind::PerCpuLruHash { .. }
        );
        if found.is_none() && !is_hash {
            return E2BIG;
        }
        let address = match (found, flags) {
            (Some(_), helper::NOEXIST) => return EEXIST,
            (None, helper::EXIST) => return ENOENT,
            (Some(address), _) => address,
            (None, _) => {
                let (entries, evicts) = match self.kind {
                    MapKind::Hash { entries } | MapKind::PerCpuHash { entries } => (entries, false),
                    MapKind::LruHash { entries } | MapKind::PerCpuLruHash { entries } => (entries, true),
                    _ => return E2BIG,
                };
                if self.keys().len() >= entries as usize {
                    let Some(oldest) = self.oldest().filter(|_| evicts) else {
                        return E2BIG;
                    };
                    self.delete(&oldest);
                }
                let cpu = if self.per_cpu() { cpu } else { 0 };
                let address = memory.allocate(Space::Value, self.value_size.into());
                self.values.insert((key.to_vec(), cpu), address);
                address
            }
        };
        match memory.fill(address, value) {
            Ok(()) => 0,
            Err(_) => EINVAL,
        }
    }

    /// `bpf_map_delete_elem`. The memory is kept, as in the kernel while a program may look at it.
    pub(super) fn delete(&mut self, key: &[u8]) -> i64 {
        if self.array_entries().is_some() {
            return EINVAL;
        }
        let before = self.values.len();
        self.values.retain(|(k, _), _| k != key);
        if self.values.len() < before { 0 } else { ENOENT }
    }

    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self.values.keys().map(|(key, _)| key.clone()).collect();
        keys.dedup();
        keys
    }

    /// The key that was added first: values get ever higher addresses.
    fn oldest(&self) -> Option<Vec<u8>> {
        let first = self.values.iter().min_by_key(|(_, address)| **address);
        first.map(|((key, _), _)| key.clone())
    }

    fn per_cpu(&self) -> bool {
        matches!(
            self.kind,
            MapKind::PerCpuArray { .. } | MapKind::PerCpuHash { .. } | MapKind::PerCpuLruHash { .. }
        )
    }

    fn array_entries(&self) -> Option<u32> {
        match self.kind {
            MapKind::Array { entries }
            | MapKind::PerCpuArray { entries }
            | MapKind::ReadOnlyArray { entries } => Some(entries),
            _ => None,
        }
    }

    fn space(&self) -> Space {
        match self.kind {
            MapKind::ReadOnlyArray { .. } => Space::ReadOnlyValue,
            _ => Space::Value,
        }
    }
}

impl Machine {
    /// Adds a map; the first is `MapRef(0)`, the next `MapRef(1)`. Sizes in bytes.
    pub fn add_map(&mut self, kind: MapKind, key_size: u32, value_size: u32) -> MapRef {
        let (values, programs, events) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        self.maps.push(Map {
            kind,
            key_size,
            value_size,
            values,
            programs,
            events,
        });
        MapRef(self.maps.len() as u32 - 1)
    }

    /// The address of a value as a program on this machine's CPU would get it.
    pub fn value_address(&mut self, map: MapRef, key: &[u8]) -> Option<u64> {
        let cpu = self.environment.cpu;
        self.maps
            .get_mut(map.0 as usize)?
            .find(&mut self.memory, key, cpu)
    }

    /// A copy of the value at `key`; of a per-CPU map, that of `cpu`.
    pub fn value(&self, map: MapRef, key: &[u8], cpu: u32) -> Option<Vec<u8>> {
        let map = self.maps.get(map.0 as usize)?;
        let address = map
            .values
            .get(&(key.to_vec(), if map.per_cpu() { cpu } else { 0 }))?;
        Some(self.memory.slice(*address, map.value_size.into()).ok()?.to_vec())
    }

    /// The first eight bytes of an array's value, as a number; of a per-CPU array, that of the machine's CPU.
    pub fn value_u64(&self, map: MapRef, index: u32) -> Option<u64> {
        let value = self.value(map, &index.to_le_bytes(), self.environment.cpu)?;
        value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Sets a value as user space would; of a per-CPU map, that of `cpu`. Gives the kernel's answer: 0 or a negative errno.
    pub fn set_value(&mut self, map: MapRef, key: &[u8], cpu: u32, value: &[u8]) -> i64 {
        match self.maps.get_mut(map.0 as usize) {
            Some(map) if key.len() == map.key_size as usize && value.len() == map.value_size as usize => {
                map.update(&mut self.memory, key, value, 0, cpu)
            }
            _ => EINVAL,
        }
    }

    /// The keys of a map that have values, in byte order; of an array, those that were used.
    pub fn keys(&self, map: MapRef) -> Vec<Vec<u8>> {
        self.maps.get(map.0 as usize).map(Map::keys).unwrap_or_default()
    }

    /// The records that were put into a [`MapKind::RingBuffer`] map; taking empties it.
    pub fn take_events(&mut self, map: MapRef) -> Vec<Vec<u8>> {
        self.maps
            .get_mut(map.0 as usize)
            .map(|map| std::mem::take(&mut map.events))
            .unwrap_or_default()
    }

    /// Fills a slot of a program array.
    pub fn set_program(&mut self, map: MapRef, index: u32, code: Code) {
        if let Some(map) = self.maps.get_mut(map.0 as usize) {
            map.programs.insert(index, Rc::new(code));
        }
    }

    /// The map behind a helper's argument.
    pub(super) fn map_of(&mut self, value: u64) -> Result<(&mut Map, &mut Memory), Reason> {
        let number = value.wrapping_sub(HANDLES);
        let map = self
            .maps
            .get_mut((number / 0x1000) as usize)
            .filter(|_| number.is_multiple_of(0x1000));
        Ok((map.ok_or(Reason::NotAMap { value })?, &mut self.memory))
    }

    /// Keys and addresses of values of a map that a helper goes over; of a per-CPU map, those of the machine's CPU.
    pub(super) fn elements(&mut self, map: u64) -> Result<Vec<(Vec<u8>, u64)>, Reason> {
        let cpu = self.environment.cpu;
        let (map, memory) = self.map_of(map)?;
        let keys = map.keys();
        let found = keys
            .into_iter()
            .filter_map(|key| map.find(memory, &key, cpu).map(|value| (key, value)));
        Ok(found.collect())
    }

    /// The address of the first value, for a direct load.
    pub(super) fn first_value(&mut self, map: MapRef) -> Result<u64, Reason> {
        let no = Reason::NoSuchMap { number: map.0 };
        let found = self.maps.get_mut(map.0 as usize).ok_or(no)?;
        let direct = matches!(found.kind, MapKind::Array { .. } | MapKind::ReadOnlyArray { .. });
        let address = found.find(&mut self.memory, &[0; 4], 0).filter(|_| direct);
        address.ok_or(Reason::NotAMap { value: handle(map) })
    }
}
