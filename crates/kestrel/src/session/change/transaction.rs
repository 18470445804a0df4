//! A change of a persistent session as a transaction: what is new is made and pinned under names that the old state does not mention, and one rename of
//! the state makes it part of the session.
//!
//! ```text
//!   stage: programs, maps, links pinned ──► commit: state renamed ──► settle: words of tables and probes ──► what was replaced unpinned
//!            │ an error: swept, the session is as it was                  │ killed: the next command settles and sweeps
//! ```

use crate::session::hook_maps::HookMaps;
use crate::session::metadata::Description;
use crate::session::objects::{self, Objects};
use crate::session::pinned::{Change, version};
use crate::session::pins;
use crate::session::state::{HookState, ObjectState, State, TableState, remove_events};
use kestrel_catalog::Result;
use kestrel_hook::hook::control::Table;
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_trace::aggregate::MapType;
use std::os::fd::AsFd;

/// A staged change: made and pinned, not yet committed.
pub(in crate::session) struct Staged {
    /// The session's next state.
    pub(in crate::session) next: State,
    /// The trace's description, where kinds of record or buffers change.
    pub(in crate::session) description: Option<Description>,
    /// Compiled objects that are kept in the kernel once the state mentions them.
    pub(in crate::session) objects: Option<Objects>,
    /// Objects that the next state does not mention any more.
    pub(in crate::session) retired: Retired,
}

/// Hooks, maps and objects that are unpinned once a transaction is committed.
#[derive(Default)]
pub(in crate::session) struct Retired {
    pub(in crate::session) hooks: Vec<HookState>,
    pub(in crate::session) maps: Vec<MapType>,
    pub(in crate::session) objects: Vec<ObjectState>,
}

impl Staged {
    /// A change of the state alone, for which nothing was made.
    pub(in crate::session) fn of(next: State) -> Self {
        Self {
            next,
            description: None,
            objects: None,
            retired: Retired::default(),
        }
    }
}

impl Change {
    /// Stages a change and commits it: the one place where a session's state is replaced.
    ///
    /// # Errors
    /// Of staging or of the rename: then the session is as it was before. Of what follows: then the change is in force, and the next command
    /// finishes it.
    pub(in crate::session) fn transact<T>(
        &mut self,
        stage: impl FnOnce(&mut Self) -> Result<(Staged, T)>,
    ) -> Result<T> {
        let staged = stage(self);
        let committed = staged.and_then(|(staged, outcome)| Ok((self.commit(staged)?, outcome)));
        let (retired, outcome) = match committed {
            Ok(committed) => committed,
            Err(error) => {
                self.sweep()?;
                return Err(error);
            }
        };
        self.session.directory.remove(pins::FILLING)?;
        // The counts of removed events are forgotten before new events of the same names count.
        self.forget(&retired.hooks)?;
        self.settle()?;
        self.unpin(retired)?;
        Ok(outcome)
    }

    /// Pins a mark which says that slots are being filled: a sweep that finds it empties the slots that the state does not mention.
    pub(in crate::session) fn begin_filling(&self) -> Result<()> {
        let control = self.session.directory.map(pins::CONTROL)?;
        self.session.directory.pin(control.as_fd(), pins::FILLING)
    }

    fn commit(&mut self, staged: Staged) -> Result<Retired> {
        let Staged {
            next,
            description,
            objects,
            retired,
        } = staged;
        if let Some(description) = description {
            description.pin(&self.session.directory)?;
        }
        let new = next
            .parameters
            .iter()
            .enumerate()
            .skip(self.state.parameters.len());
        for (place, parameter) in new {
            self.control.set_parameter(place, parameter.start);
        }
        self.write(next)?;
        if let Some(objects) = objects {
            objects.keep();
        }
        Ok(retired)
    }

    /// Removes the pins of what the state does not mention any more.
    fn unpin(&self, retired: Retired) -> Result<()> {
        let directory = &self.session.directory;
        let hooks = retired.hooks.iter().flat_map(pins::of_hook);
        hooks.into_iter().try_for_each(|name| directory.remove(&name))?;
        remove_events(&self.host, &retired.hooks);
        for map in &retired.maps {
            directory.remove(&pins::map(&map.name))?;
            if map.most_frames().is_some() {
                directory.remove(&pins::stacks(&map.name))?;
            }
        }
        if self.state.maps.is_empty() && !retired.maps.is_empty() {
            directory.remove(pins::MAPS)?;
        }
        let objects = retired.objects.iter().flat_map(pins::of_object);
        objects.into_iter().try_for_each(|name| directory.remove(&name))
    }

    /// Removes pins and empties slots that the state does not mention: what a killed command left.
    pub(in crate::session) fn sweep(&self) -> Result<()> {
        let known = pins::of(&self.state);
        let names = self.directory.names()?;
        if names.iter().any(|name| name == pins::FILLING) {
            self.clear_slots(&self.slots_in_use())?;
        }
        for name in names.iter().filter(|name| !known.contains(*name)) {
            self.directory.remove(name)?;
        }
        Ok(())
    }

    fn slots_in_use(&self) -> Vec<u32> {
        self.state.tables.iter().filter_map(|t| t.slot).collect()
    }

    /// Empties the slots of all hooks except `but`.
    fn clear_slots(&self, but: &[u32]) -> Result<()> {
        self.clear_probe_slots(&self.state.hooks, &self.state.probes)?;
        for hook in self.state.hooks.iter().filter(|hook| hook.probe.is_none()) {
            let maps = HookMaps::open(&self.directory, hook)?;
            let called: Vec<u32> = objects::entries(&hook.programs).collect();
            let all = 0..maps
                .room()
                .min(kestrel_hook::hook::MAX_TABLE_SLOTS + kestrel_hook::hook::CALLS);
            for slot in all.filter(|slot| !but.contains(slot) && !called.contains(slot)) {
                maps.clear(slot)?;
            }
        }
        Ok(())
    }

    /// Writes into the control page what the state says, and removes what was marked for removal.
    ///
    /// A running handler may have read the word of an old table and store it as the active one later. So the word that handlers read is changed first, then all
    /// running handlers are waited for, and only then the active word is changed, if it is still the old one. After another wait no hook can be about to
    /// call what is removed.
    pub(in crate::session) fn settle(&mut self) -> Result<()> {
        self.arm();
        for table in &self.state.tables {
            if self.control.table(table.place) != table.word() {
                self.control.set_table(table.place, table.word());
            }
        }
        if self.state.is_settled() {
            return Ok(());
        }
        let successor = |place| {
            let table = self.state.tables.iter().find(|table| table.place == place);
            table.map_or(Table::NONE, TableState::word)
        };
        for old in &self.state.retiring {
            self.control.set_table(old.place, successor(old.place));
        }
        wait_for_running_programs()?;
        if !self.state.retiring.is_empty() {
            for old in &self.state.retiring {
                self.control.succeed(old.word(), successor(old.place));
            }
            wait_for_running_programs()?;
        }
        self.take_out()
    }

    /// Empties the slots of what was marked for removal, and detaches hooks that no table needs any more.
    fn take_out(&mut self) -> Result<()> {
        let mut next = self.state.clone();
        let out: Vec<u32> = next.retiring.iter().map(|old| old.number).collect();
        for hook in &mut next.hooks {
            for program in &mut hook.programs {
                for row in &mut program.rows {
                    row.tables.retain(|table| !out.contains(table));
                }
            }
            // The program that is attached is not exchanged by it.
            hook.programs
                .retain(|p| p.slot.is_none() || p.rows.iter().any(|row| !row.tables.is_empty()));
        }
        let needed = |hook: &HookState| next.tables.iter().any(|t| hook.serves(t.number));
        let leads = |hook: &HookState| {
            let mut relays = next.hooks.iter().filter(|hook| needed(hook));
            relays.any(|other| other.relay.is_some_and(|relay| relay.from == hook.number))
        };
        let needed = |hook: &HookState| needed(hook) || leads(hook);
        let (kept, gone): (Vec<_>, Vec<_>) = next.hooks.iter().cloned().partition(needed);
        for hook in kept.iter().filter(|hook| hook.probe.is_none()) {
            for slot in next.retiring.iter().filter_map(|old| old.slot) {
                HookMaps::open(&self.directory, hook)?.clear(slot)?;
            }
        }
        for hook in kept.iter().filter(|hook| hook.probe.is_none()) {
            let left: Vec<u32> = objects::entries(&hook.programs).collect();
            let mut was = self.state.hooks.iter();
            let was = was.find(|known| known.number == hook.number);
            let was = was.map_or(&[][..], |known| &known.programs);
            for entry in objects::entries(was).filter(|entry| !left.contains(entry)) {
                HookMaps::open(&self.directory, hook)?.clear(entry)?;
            }
        }
        next.hooks = kept;
        next.retiring.clear();
        if next.probes.renewed {
            self.clear_probe_slots(&next.hooks, &next.probes)?;
            next.probes.renewed = false;
        }
        let unused = next.forget_objects();
        self.write(next)?;
        for name in unused.iter().flat_map(pins::of_object) {
            self.directory.remove(&name)?;
        }
        for hook in &gone {
            for name in pins::of_hook(hook) {
                self.directory.remove(&name)?;
            }
        }
        remove_events(&self.host, &gone);
        Ok(())
    }

    /// Replaces the pinned state by a new one, with one rename.
    pub(in crate::session) fn write(&mut self, mut next: State) -> Result<()> {
        next.generation = self.session.state.generation + 1;
        let map = next.to_map()?;
        self.session.directory.replace(map.as_fd(), pins::STATE)?;
        self.session.version = version(&self.session.directory);
        self.session.state = next;
        Ok(())
    }
}
