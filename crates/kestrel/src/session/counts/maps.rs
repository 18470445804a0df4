//! The maps of a session's handlers: made from their types, found by programs, read, emptied; what lies in them is
//! [`kestrel_trace::aggregate`]'s.

use super::unwinding::KernelUnwinding;
use crate::user_symbols::UserCode;
use kestrel_catalog::symbols::live_symbols;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::failures::{self, Failure};
use kestrel_compiler::{ir, map};
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, ValueCheck};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_kernel::procfs::{ClockPair, monotonic, possible_cpus};
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::aggregate::{MapType, state};
use kestrel_trace::layout::Names;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::user_symbol::{UserSymbols, addresses_of};
use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maps of a session, and the state map where there are any.
#[derive(Debug, Default)]
pub struct Maps {
    state: Option<Arc<State>>,
    maps: Vec<(MapType, Map)>,
    /// The stacks that are keys of maps, by the map's name.
    stacks: Vec<(String, Map)>,
    /// Failures of helpers, where they are counted.
    failures: Option<Map>,
    /// Tables by which programs unwind stacks, where they do.
    unwinding: Option<KernelUnwinding>,
}

/// The state map, seen by programs and by us.
#[derive(Debug)]
struct State {
    map: Map,
    mapping: Mapping,
    /// Generations up to which no key of an older one is left, by the maps' numbers.
    swept: Vec<AtomicU64>,
}

impl Maps {
    /// Makes the maps of a plan; none where its handlers use none.
    ///
    /// # Errors
    /// The kernel's: no memory, most of all.
    pub fn create(types: &[MapType], counts_failures: bool, unwinds: bool) -> Result<Self> {
        let mut maps = Self {
            unwinding: unwinds.then(KernelUnwinding::create).transpose()?,
            ..Self::default()
        };
        if counts_failures {
            let map = make(&failures::spec())?;
            map.update(&failures::OTHERS, &[0; 16], ValueCheck::Any)?;
            maps.failures = Some(map);
        }
        maps.add(types)?;
        Ok(maps)
    }

    /// Makes those maps that are not there yet, for handlers that are loaded later.
    ///
    /// # Errors
    /// As [`Maps::create`].
    pub fn add(&mut self, types: &[MapType]) -> Result<()> {
        for ty in types {
            if self.maps.iter().any(|(known, _)| known.name == ty.name) {
                continue;
            }
            if self.state.is_none() {
                self.state = Some(Arc::new(State::open(make(&map::state_spec(types))?)?));
            }
            if let Some(spec) = map::stacks_spec(ty) {
                self.stacks.push((ty.name.clone(), make(&spec)?));
            }
            self.maps.push((ty.clone(), make(&map::spec(ty))?));
        }
        Ok(())
    }

    /// The maps of a session that is there already: its state map, each map with its type, and the stacks that are keys, by the map's name.
    ///
    /// # Errors
    /// When the state map cannot be mapped.
    pub fn open(state: Option<Map>, maps: Vec<(MapType, Map)>, stacks: Vec<(String, Map)>) -> Result<Self> {
        let state = state.map(State::open).transpose()?.map(Arc::new);
        Ok(Self {
            state,
            maps,
            stacks,
            failures: None,
            unwinding: None,
        })
    }

    /// The stacks that are keys of a map, to be pinned.
    pub fn stacks(&self, name: &str) -> Option<&Map> {
        let mut all = self.stacks.iter();
        all.find(|(of, _)| of == name).map(|(_, map)| map)
    }

    /// Whether stacks of processes are among the keys of one.
    pub(crate) fn have_user_stacks(&self) -> bool {
        self.maps.iter().any(|(ty, _)| ty.has_user_stacks())
    }

    /// The state map, to be pinned.
    pub fn state(&self) -> Option<&Map> {
        self.state.as_ref().map(|state| &state.map)
    }

    /// Each map with its type, by number, to be pinned.
    pub fn all(&self) -> &[(MapType, Map)] {
        &self.maps
    }

    /// The map that programs refer to by this name.
    pub fn find(&self, external: &str) -> Option<&Map> {
        if external == state::MAP {
            return self.state();
        }
        if external == failures::MAP {
            return self.failures.as_ref();
        }
        if let Some(map) = self.unwinding.as_ref().and_then(|it| it.find(external)) {
            return Some(map);
        }
        let mut all = self.maps.iter();
        let map = all.find(|(ty, _)| map::external_name(ty) == external);
        let stacks = || {
            let mut all = self.maps.iter();
            let (ty, _) = all.find(|(ty, _)| map::stacks_name(ty) == external)?;
            self.stacks(&ty.name)
        };
        map.map(|(_, map)| map).or_else(stacks)
    }

    /// Tables by which programs unwind stacks, where they do.
    pub(crate) fn unwinding(&self) -> Option<&KernelUnwinding> {
        self.unwinding.as_ref()
    }

    /// Failures of helpers, by place, helper and errno; empty where they are not counted.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn failures(&self) -> Result<Vec<Failure>> {
        let entries = self.failures.as_ref().map(Map::entries).transpose()?;
        let failures = entries.iter().flatten();
        let failures = failures.filter_map(|(key, value)| Failure::read(key, value));
        Ok(failures.filter(|failure| failure.count > 0).collect())
    }

    /// Contents of the maps now; `events` are the names of the events' numbers.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&self, events: &Names) -> Result<Vec<Snapshot>> {
        let shown = self.maps.iter().filter(|(ty, _)| !ty.is_hidden());
        shown.map(|(ty, map)| self.read_one(ty, map, events)).collect()
    }

    /// Contribution of each CPU to the maps, by the CPU's number: of maps that are kept per CPU, as those of `count()` are.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn read_by_cpu(&self, events: &Names) -> Result<Vec<(u32, Snapshot)>> {
        let cpus = possible_cpus()?;
        let mut all = Vec::new();
        for (ty, map) in self.maps.iter().filter(|(ty, _)| !ty.is_hidden()) {
            let (ty, state, entries) = (ty.named(events), self.state_bytes()?, map.entries()?);
            for (place, cpu) in cpus.iter().enumerate() {
                let elements = entries.iter().map(|(key, element)| {
                    let mut values = map.cpu_values(element).skip(place);
                    (key.clone(), values.next())
                });
                let snapshot = Snapshot::new(&ty, &state, elements);
                all.push((cpu, self.with_stacks(snapshot)));
            }
        }
        Ok(all)
    }

    /// Counts of entries that hidden maps had no room for: for each the event that was not seen for that reason, and how often.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn unkept(&self) -> Result<Vec<(String, u64)>> {
        let Some(state) = &self.state else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for (ty, _) in self.maps.iter().filter(|(ty, _)| ty.is_hidden()) {
            let lost = state.word(state::lost(ty.number))?.load(Ordering::Relaxed);
            if lost > 0 {
                all.push((ty.first.clone(), lost));
            }
        }
        Ok(all)
    }

    /// Contents of a map before it was cleared: the map of that name as of a generation. `value` is what a map without keys held then, where that is known.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read_generation(
        &self,
        name: &str,
        generation: u64,
        value: Option<u64>,
        events: &Names,
    ) -> Result<Option<Snapshot>> {
        let Some((ty, map)) = self.maps.iter().find(|(ty, _)| ty.name == name) else {
            return Ok(None);
        };
        let mut state = self.state_bytes()?;
        let at = state::generation(ty.number) as usize;
        if let Some(word) = state.get_mut(at..at + 8) {
            word.copy_from_slice(&generation.to_le_bytes());
        }
        if let (Some(value), true) = (value, ty.keys.is_empty()) {
            let (ty, value) = (ty.named(events), value.to_le_bytes());
            let elements = [(vec![0; 4], [value.as_slice()])];
            return Ok(Some(Snapshot::by_name(&ty, &state, elements)));
        }
        self.read_as_of(ty, map, events, (&state, true)).map(Some)
    }

    fn read_one(&self, ty: &MapType, map: &Map, events: &Names) -> Result<Snapshot> {
        self.read_as_of(ty, map, events, (&self.state_bytes()?, false))
    }

    fn read_as_of(
        &self,
        ty: &MapType,
        map: &Map,
        events: &Names,
        (state, asked): (&[u8], bool),
    ) -> Result<Snapshot> {
        let ty = ty.named(events);
        let mut entries = map.entries()?;
        if ty.keys.is_empty() && ty.entries > 1 {
            let generation = state::word(state, state::generation(ty.number));
            let index = (generation & u64::from(ty.entries - 1)) as u32;
            entries.retain(|(key, _)| *key == index.to_le_bytes());
        }
        let elements = entries
            .iter()
            .map(|(key, element)| (key.clone(), map.cpu_values(element)));
        let snapshot = match asked {
            true => Snapshot::by_name(&ty, state, elements),
            false => Snapshot::new(&ty, state, elements),
        };
        let snapshot = snapshot.dated(ClockPair::now().offset());
        Ok(self.with_stacks(snapshot))
    }

    /// A reading with the stacks that are keys, and with its time where it has code of processes. The kernel takes a stack away for a moment while it is read: one of the same number that comes then takes its place.
    fn with_stacks(&self, snapshot: Snapshot) -> Snapshot {
        let Some(stacks) = self.stacks(&snapshot.ty.name) else {
            // The process whose code an address is depends on the time, too.
            return match snapshot.ty.has_user_stacks() {
                true => snapshot.with_stacks(monotonic(), |_, _| None),
                false => snapshot,
            };
        };
        snapshot.with_stacks(monotonic(), |number, most| {
            let mut frames = stacks.lookup(&number.to_ne_bytes()).ok()??;
            frames.truncate(most as usize * 8);
            let (words, _) = frames.as_chunks::<8>();
            let used = words.iter().take_while(|word| **word != [0; 8]).count();
            frames.truncate(used * 8);
            Some(frames)
        })
    }

    fn state_bytes(&self) -> Result<Vec<u8>> {
        match &self.state {
            Some(state) => Ok(state.mapping.to_vec(0..state::ZEROES as usize)?),
            None => Ok(Vec::new()),
        }
    }

    /// Empties a map, as `clear(@x)` does. What events add at the same moment to a map without keys may go, too.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn clear(&mut self, name: &str) -> Result<()> {
        let (Some(state), Some((ty, map))) = (&self.state, self.maps.iter().find(|(ty, _)| ty.name == name))
        else {
            return Ok(());
        };
        state.word(state::lost(ty.number))?.store(0, Ordering::Relaxed);
        if ty.keys.is_empty() {
            state.word(state::written(ty.number))?.store(0, Ordering::Relaxed);
            let zeros = vec![0; map.element_size()];
            return Ok(map.update(&[0; 4], &zeros, ValueCheck::Any)?);
        }
        if !ty.generations {
            for (key, _) in map.entries()? {
                map.delete(&key)?;
            }
            return Ok(());
        }
        state
            .word(state::generation(ty.number))?
            .fetch_add(1, Ordering::SeqCst);
        self.sweep()
    }

    /// Forgets what the map of a number had no room for.
    ///
    /// # Errors
    /// When there is no such number.
    pub(crate) fn reset_lost(&self, number: u32) -> Result<()> {
        if let Some(state) = &self.state {
            state.word(state::lost(number))?.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes what was kept for some events, by their numbers, out of a map without a name; its other events keep theirs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn forget(&self, number: u32, events: &[u64]) -> Result<()> {
        let known = self
            .maps
            .iter()
            .find(|(ty, _)| ty.number == number && ty.by_event);
        let Some((ty, map)) = known else {
            return Ok(());
        };
        let at = ty.key_offsets().next().unwrap_or_default();
        for (key, _) in map.entries()? {
            if events.contains(&state::word(&key, at)) {
                map.delete(&key)?;
            }
        }
        Ok(())
    }

    /// Takes all keys out of those of some maps that handlers keep for themselves.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn empty_hidden(&self, numbers: &BTreeSet<u32>) -> Result<()> {
        let meant = |ty: &MapType| ty.is_hidden() && numbers.contains(&ty.number);
        for (_, map) in self.maps.iter().filter(|(ty, _)| meant(ty)) {
            for (key, _) in map.entries()? {
                map.delete(&key)?;
            }
        }
        Ok(())
    }

    /// Removes the keys that a `clear` has left behind: they are not seen any more, but take room.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn sweep(&mut self) -> Result<()> {
        let generations = self.generations()?;
        self.sweep_before(&generations)
    }

    /// The generation of each map: the number of times that it was cleared.
    ///
    /// # Errors
    /// None but those of a session that is damaged.
    pub fn generations(&self) -> Result<Vec<u64>> {
        let Some(state) = &self.state else {
            return Ok(Vec::new());
        };
        let generation = |(ty, _): &(MapType, Map)| {
            let word = state.word(state::generation(ty.number))?;
            Ok(word.load(Ordering::SeqCst))
        };
        self.maps.iter().map(generation).collect()
    }

    /// The generation of the map of a name.
    ///
    /// # Errors
    /// None but those of a session that is damaged.
    pub(in crate::session) fn generation(&self, name: &str) -> Result<u64> {
        let known = self.maps.iter().find(|(ty, _)| ty.name == name);
        match (&self.state, known) {
            (Some(state), Some((ty, _))) => {
                Ok(state.word(state::generation(ty.number))?.load(Ordering::SeqCst))
            }
            _ => Ok(0),
        }
    }

    /// The generation of each map, to be read and raised by another thread.
    pub(crate) fn shared_generations(&self) -> Generations {
        let maps = self.maps.iter();
        Generations {
            state: self.state.clone(),
            maps: maps
                .map(|(ty, _)| (ty.name.clone(), (ty.number, ty.entries, ty.keys.is_empty())))
                .collect(),
        }
    }

    /// Removes the keys of a map's generations before this one; where this one is `zeroed`, they are kept with zero.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn sweep_map(&self, name: &str, generation: u64, zeroed: bool) -> Result<()> {
        match (&self.state, self.maps.iter().find(|(ty, _)| ty.name == name)) {
            (Some(state), Some((ty, map))) => sweep_one(state, ty, map, (generation, zeroed)),
            _ => Ok(()),
        }
    }

    /// Removes the keys of generations before these.
    fn sweep_before(&mut self, generations: &[u64]) -> Result<()> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        for ((ty, map), &generation) in self.maps.iter().zip(generations) {
            sweep_one(state, ty, map, (generation, false))?;
        }
        Ok(())
    }
}

/// Removes the keys of a map's generations before this one; where this one is `zeroed`, they are kept with zero.
fn sweep_one(state: &State, ty: &MapType, map: &Map, (generation, zeroed): (u64, bool)) -> Result<()> {
    let Some(swept) = state.swept.get(ty.number as usize) else {
        return Ok(());
    };
    let before = swept.load(Ordering::Relaxed);
    if before >= generation {
        return Ok(());
    }
    let zeros = vec![0; map.element_size()];
    if ty.keys.is_empty() {
        for old in (before..generation).rev().take(ty.entries.max(1) as usize - 1) {
            let index = (old & u64::from(ty.entries.max(1) - 1)) as u32;
            map.update(&index.to_le_bytes(), &zeros, ValueCheck::Any)?;
        }
    } else {
        for (key, _) in map.entries()? {
            if !ty.is_since(generation, &key) {
                map.delete(&key)?;
                if zeroed && ty.generations {
                    // A key that events have made meanwhile is left as it is.
                    let _there = map.update(&renewed(key, generation), &zeros, ValueCheck::New);
                }
            }
        }
    }
    swept.store(generation, Ordering::Relaxed);
    Ok(())
}
/// A key with another generation in it.
fn renewed(mut key: Vec<u8>, generation: u64) -> Vec<u8> {
    if let Some(word) = key.first_chunk_mut() {
        *word = generation.to_le_bytes();
    }
    key
}

/// Generations of a session's maps, the number of times that each was cleared: to be read and raised by any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generations {
    state: Option<Arc<State>>,
    /// By the maps' names: number, entries, and whether it has no keys.
    maps: HashMap<String, (u32, u32, bool)>,
}

impl Generations {
    /// The generation of a map now.
    pub(crate) fn now(&self, map: &str) -> u64 {
        let word = self.word(map, state::generation);
        word.map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Clears a map as `clear(@x)` of a handler does, or as `zero(@x)` where `zeroed`; gives the generation that begins.
    pub(crate) fn raise(&self, map: &str, zeroed: bool) -> u64 {
        let Some(word) = self.word(map, state::generation) else {
            return 0;
        };
        if let Some(written) = self.word(map, state::written) {
            written.store(0, Ordering::SeqCst);
        }
        let begun = word.fetch_add(1, Ordering::SeqCst) + 1;
        if let (true, Some(word)) = (zeroed, self.word(map, state::zeroed)) {
            word.store(begun, Ordering::SeqCst);
        }
        begun
    }

    /// Whether a map may be cleared once more before what was cleared is read: one without keys has a place for each of its last generations only.
    pub(crate) fn has_room(&self, map: &str) -> bool {
        let (Some(state), Some((number, entries, true))) = (&self.state, self.maps.get(map)) else {
            return true;
        };
        let swept = state.swept.get(*number as usize);
        let swept = swept.map_or(0, |swept| swept.load(Ordering::Relaxed));
        self.now(map) - swept.min(self.now(map)) < u64::from(entries / 2)
    }

    fn word(&self, map: &str, of: fn(u32) -> u32) -> Option<&AtomicU64> {
        let (number, ..) = self.maps.get(map)?;
        self.state.as_ref()?.word(of(*number)).ok()
    }
}

impl State {
    fn open(map: Map) -> Result<Self> {
        let mapping = Mapping::new(map.as_fd(), 0, state::SIZE as usize, Access::ReadWrite)?;
        Ok(Self {
            map,
            mapping,
            swept: (0..state::MAX_MAPS).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn word(&self, offset: u32) -> Result<&std::sync::atomic::AtomicU64> {
        let word = self.mapping.atomic_u64(offset as usize);
        word.ok_or_else(|| Error::Compile {
            event: state::MAP.to_owned(),
            why: format!("the session's map has no word at {offset}"),
        })
    }
}

/// Makes a map that a program or its language asks for.
pub(in crate::session) fn make(spec: &ir::MapSpec) -> Result<Map> {
    let kind = match spec.kind {
        ir::MapKind::Array => MapKind::ARRAY,
        ir::MapKind::PerCpuArray => MapKind::PERCPU_ARRAY,
        ir::MapKind::Hash => MapKind::HASH,
        ir::MapKind::PerCpuHash => MapKind::PERCPU_HASH,
        ir::MapKind::LruHash => MapKind::LRU_HASH,
        ir::MapKind::PerCpuLruHash => MapKind::LRU_PERCPU_HASH,
        ir::MapKind::ProgramArray => MapKind::PROG_ARRAY,
        ir::MapKind::StackTrace => MapKind::STACK_TRACE,
    };
    let spec = MapSpec::new(kind, &spec.name, spec.key, spec.value, spec.entries).with_flags(spec.flags);
    Ok(Map::create(&spec)?)
}

/// Names for the addresses in what maps held, where there are any, and what else a reader should know of them. `code` is what is known of processes' code, where that was
/// followed; else what they have mapped now is looked at.
pub fn symbols(snapshots: &[Snapshot], host: &Host, code: Option<&mut UserCode>) -> (Symbols, Vec<String>) {
    let shows = snapshots
        .iter()
        .any(|snapshot| snapshot.ty.has_kernel_addresses());
    let symbols = match shows {
        true => live_symbols(host),
        false => Symbols::default(),
    };
    if !snapshots.iter().any(|snapshot| snapshot.ty.has_user_stacks()) {
        return (symbols, Vec::new());
    }
    let named = match code {
        Some(code) => Some(user_names(snapshots, code)),
        None => UserCode::at_present(host)
            .ok()
            .map(|mut present| user_names(snapshots, &mut present)),
    };
    let (user, notes) = named.unwrap_or_default();
    (symbols.with_user(user), notes)
}

/// Names for the code of processes in keys and values.
fn user_names(snapshots: &[Snapshot], code: &mut UserCode) -> (UserSymbols, Vec<String>) {
    // Without them names are fewer.
    _ = code.poll();
    let rows = snapshots
        .iter()
        .flat_map(|snapshot| snapshot.rows.iter().map(|row| (row, &snapshot.ty)));
    for (row, ty) in rows {
        let time = row.read_ns();
        for value in row.keys(ty).chain(row.held(ty)) {
            addresses_of(value, &mut |pid, address| code.need(pid, time, address));
        }
    }
    code.name()
}
