//! The maps of one hook: slots for handlers that are loaded later, the values that distinguish a set's events, hits that were seen.

use crate::plan::Hook;
use crate::session::pins::{self, Directory};
use crate::session::state::HookState;
use kestrel_catalog::Result;
use kestrel_hook::hook::{CALLS, MAX_TABLE_SLOTS, named};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, Program, ValueCheck};
use std::os::fd::AsFd;

/// The map from what distinguishes a set's events (a system call's number, say) to 1 + an event's index.
pub(in crate::session) fn numbers_map(hook: &Hook, name: &str) -> Result<(String, Map)> {
    let codes = || {
        hook.instances
            .iter()
            .enumerate()
            .filter_map(|(index, i)| Some((i.code?, index as u16 + 1)))
    };
    let entries = codes().map(|(code, _)| code + 1).max().unwrap_or(1);
    let map = Map::create(&MapSpec::new(MapKind::ARRAY, "kestrel_numbers", 4, 2, entries))?;
    for (code, number) in codes() {
        map.update(&code.to_ne_bytes(), &number.to_ne_bytes(), ValueCheck::Any)?;
    }
    Ok((name.to_owned(), map))
}

/// Where so many handlers that are made later are put, and behind the tables' slots the programs of objects, where it has some.
pub(in crate::session) fn slots_map(slots: u32, calls: bool) -> Result<Option<Map>> {
    let entries = match slots {
        0 if !calls => return Ok(None),
        named::PROBE_SLOTS if !calls => slots,
        _ => MAX_TABLE_SLOTS + CALLS,
    };
    let spec = MapSpec::new(MapKind::PROG_ARRAY, "kestrel_slots", 4, 4, entries);
    Ok(Some(Map::create(&spec)?))
}

/// The maps of a hook that is there, as programs that it calls need them.
pub(in crate::session) struct HookMaps {
    /// For each of the programs that are attached.
    pub(in crate::session) slots: Vec<Map>,
    /// The hits that were seen, where several are.
    pub(in crate::session) seen: Option<Map>,
}

impl HookMaps {
    pub(in crate::session) fn open(directory: &Directory, hook: &HookState) -> Result<Self> {
        let programs = 0..hook.copies.max(1);
        let slots = programs.map(|program| directory.map(&pins::slots(hook.number, program)));
        let seen = || directory.map(&pins::seen(hook.number));
        Ok(Self {
            slots: slots.collect::<Result<_>>()?,
            seen: (hook.copies > 0).then(seen).transpose()?,
        })
    }

    /// The number of handlers that each has room for.
    pub(in crate::session) fn room(&self) -> u32 {
        self.slots
            .iter()
            .map(|slots| slots.info().entries)
            .min()
            .unwrap_or(0)
    }

    /// Puts programs, one for each that is attached, into a slot.
    pub(in crate::session) fn fill(&self, slot: u32, programs: &[Program]) -> Result<()> {
        for (slots, program) in self.slots.iter().zip(programs) {
            slots.set_slot(slot, program.as_fd())?;
        }
        Ok(())
    }

    /// Empties a slot.
    pub(in crate::session) fn clear(&self, slot: u32) -> Result<()> {
        for slots in &self.slots {
            slots.delete(&slot.to_ne_bytes())?;
        }
        Ok(())
    }
}
