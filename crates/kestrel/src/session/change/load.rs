//! Tables for a session that runs: handlers for the slots of its hooks, hooks for events that it does not see yet; replacing and taking out.
//!
//! New objects are made and pinned under names that the old state does not mention; the new state, put in the old one's place by one rename, is
//! what makes them part of the session. Objects that they replace are in the new state as *retiring*, and are taken out by [`Change::settle`], here or, if
//! this process is killed, by the next command.

use crate::plan::{Existing, ExistingHook, plan_load};
use crate::plan::{Hook, Plan, Slot, no_second, room_to_grow};
use crate::session::hook_maps::HookMaps;
use crate::session::hook_state::hook_state;
use crate::session::in_progress::{LoadInProgress, Loaded, full};
use crate::session::metadata::Description;
use crate::session::pinned::Change;
use crate::session::prepare::{self, PreparedHook};
use crate::session::recompile::Recompile;
use crate::session::record_ids::RecordIds;
use crate::session::slot_program::{Made, compile, program_state};
use crate::session::state::{HookState, TableState, parameter, uses};
use crate::session::transaction::Staged;
use crate::session::{objects, pins, relay};
use kestrel_catalog::attach::turn;
use kestrel_catalog::catalog::{Catalog, Via};
use kestrel_catalog::{Error, Result};
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_hook::table::TableFile;
use kestrel_kernel::process::allow_open_files;
use kestrel_trace::aggregate::MapType;
use std::os::fd::AsFd;

impl Change {
    /// Adds tables of a file to the session, each in the place of the one of its name if there is one. If that is the active one, the new one is
    /// active then; no event is lost, and none is handled by both.
    ///
    /// # Errors
    /// All that is wrong with the file, or what the kernel refused: then the session is as it was before.
    pub fn load(
        &mut self,
        file: &TableFile,
        names: &[String],
        catalog: &Catalog,
        via: Via,
    ) -> Result<Loaded> {
        match self.try_load(file, names, catalog, via) {
            Err(Error::NoRoom { needed, .. }) if needed <= u32::from(u16::MAX) + 1 => {
                self.make_room(room_to_grow(needed), catalog)?;
                self.try_load(file, names, catalog, via)
            }
            Err(Error::AtFunction { hooks, events }) => {
                let next = self.state.clone();
                self.make_anew(Vec::new(), &hooks, next, catalog)?;
                let mut loaded = self.load(file, names, catalog, via)?;
                loaded.moved.extend(events);
                Ok(loaded)
            }
            other => other,
        }
    }

    /// Loads tables where the buffers have room for the counts of all kinds of record.
    fn try_load(
        &mut self,
        file: &TableFile,
        names: &[String],
        catalog: &Catalog,
        via: Via,
    ) -> Result<Loaded> {
        let loaded = self.transact(|change| {
            change.begin_filling()?;
            let mut loading = LoadInProgress::begin(&change.session)?;
            loading.tables(file, names, catalog, via)?;
            let LoadInProgress {
                session,
                mut next,
                loaded,
                programs,
                ..
            } = loading;
            next.objects
                .extend(session.resources.objects.pin(&change.session.directory)?);
            let mut info = session.info.clone();
            info.events = session.classes.clone();
            let description = Description::create(&info, next.generation + 1)?;
            let new = session.hooks.iter().map(|hook| &hook.program).chain(&programs);
            description.bind(new)?;
            let staged = Staged {
                description: Some(description),
                objects: Some(session.resources.objects),
                ..Staged::of(next)
            };
            Ok((staged, loaded))
        })?;
        // The tables are in; the rest the next change tries again.
        let relays_pending = self.make_relays_known(catalog).err();
        Ok(Loaded {
            relays_pending,
            ..loaded
        })
    }

    /// Makes all handlers anew where there are relays that those which are there do not know: they take away what a skipped one left.
    pub(in crate::session) fn make_relays_known(&mut self, catalog: &Catalog) -> Result<()> {
        if self.state.unknown_relays().is_empty() {
            return Ok(());
        }
        let mut next = self.state.clone();
        next.known_relays = next.relays();
        self.put_rings(Vec::new(), next, catalog).map(drop)
    }

    /// Takes a table out.
    ///
    /// # Errors
    /// [`Error::TableInUse`] while it is active, or another one may switch to it.
    pub fn unload(&mut self, name: &str) -> Result<()> {
        let table = self.state.table(name).ok_or_else(|| self.no_table(name))?.clone();
        self.not_of_probes("unload", name)?;
        let refused = |why: String| Error::TableInUse {
            action: "unload",
            table: name.to_owned(),
            why,
        };
        if self.control.active() == table.word() {
            return Err(refused(
                "it is active; `kestrel table use` another one first".to_owned(),
            ));
        }
        let others = self.state.tables.iter().filter(|other| other.name != name);
        let users: Vec<&str> = others
            .filter(|other| other.uses.iter().any(|used| used == name))
            .map(|other| other.name.as_str())
            .collect();
        if !users.is_empty() {
            return Err(refused(format!("handlers of {} switch to it", users.join(", "))));
        }
        let mut next = self.state.clone();
        next.tables.retain(|other| other.name != name);
        next.retiring.push(table.retiring());
        self.transact(|_| Ok((Staged::of(next), ())))
    }
}

impl LoadInProgress<'_> {
    fn tables(&mut self, file: &TableFile, names: &[String], catalog: &Catalog, via: Via) -> Result<()> {
        // All of them have places before any is compiled: they may name each other.
        for name in names {
            if file.table(name).is_none() {
                return Err(file.no_table(name));
            }
            self.pinned.not_of_probes("load", name)?;
            if !self.next.places.contains(name) {
                self.next.give_place(name, names);
            }
        }
        if self.next.places.len() > kestrel_hook::hook::control::MAX_TABLES as usize {
            return Err(full(names, "a session has room for 512 names of tables"));
        }
        for name in names {
            self.table(file, name, catalog, via)?;
        }
        match self.needed {
            0 => Ok(()),
            needed => Err(Error::NoRoom {
                event: names.join(", "),
                wanted: (needed - self.pinned.state.next_record) as usize,
                needed,
            }),
        }
    }

    fn table(&mut self, file: &TableFile, name: &str, catalog: &Catalog, via: Via) -> Result<()> {
        let number = self.next.next_table;
        let one = [name.to_owned()];
        let slot = self.next.free_slot(&[]);
        let slot =
            slot.ok_or_else(|| full(&one, "a session has room for 512 tables that are loaded into it"))?;
        let mut plan = plan_load(
            &self.existing(self.next.places.clone())?,
            file,
            name,
            number,
            catalog,
            via,
        )?;
        self.no_second_jprobe(&plan.hooks, catalog)?;
        self.add_resources(&mut plan)?;
        let place = self.next.places.iter().position(|known| known == name);
        let table = TableState {
            name: name.to_owned(),
            number,
            place: place.unwrap_or_default() as u32,
            slot: Some(slot),
            file: Some(file.name.clone()),
            loaded: self.now,
            uses: uses(&plan, number),
        };
        // Detaching probes elsewhere holds the kernel's locks for long: the two take turns.
        let _turn = turn(catalog.host());
        let before = self.next.clone();
        let owners = RecordIds::of(&before, before.table(name).map(|table| table.number));
        for index in 0..plan.hooks.len() {
            match plan.hooks[index].slot.clone() {
                Some(into) => self.number_in_slot(&mut plan, index, &into, &owners)?,
                None => self.renumber(&mut plan.hooks[index], &owners)?,
            }
        }
        // The rings have no counters for so many kinds of record: the caller makes room and comes again.
        if self.needed > 0 {
            return Ok(());
        }
        let is_relayed = plan.hooks.iter().any(|hook| hook.taken_from.is_some());
        if is_relayed && 2 * self.next.tables.len() + 2 > kestrel_hook::hook::MAX_TABLE_SLOTS as usize {
            let why = "an object is of another type than the session's hook, so all handlers are made anew, and there are too few free slots for that: unload some tables first";
            return Err(full(&one, why));
        }
        if is_relayed && self.session.resources.relay.is_none() {
            let map = relay::create_map()?;
            self.pinned.directory.pin(map.as_fd(), pins::RELAY)?;
            self.session.resources.relay = Some(map);
        }
        for hook in &mut plan.hooks {
            let there = hook.slot.as_ref().map(|slot| self.next.hooks[slot.hook].number);
            let relays = self.next.hooks.iter().filter_map(|hook| hook.relay);
            // Handlers of a hook that passes words on also clear what an earlier hit left.
            hook.relayed_hooks = relays.filter(|relay| Some(relay.from) == there).collect();
        }
        let mut ready = prepare::prepare(&self.session.resources, &plan, catalog);
        let mut programs = self.compile_all(&plan, catalog);
        for index in 0..plan.hooks.len() {
            match plan.hooks[index].slot.clone() {
                Some(into) => {
                    self.fill(&plan, index, &into, (slot, programs[index].take()), catalog)?;
                    self.begin_counts(into.hook, &owners);
                }
                None => {
                    let there = self.next.hooks.len();
                    self.attach(&plan, index, ready[index].take(), catalog)?;
                    self.begin_counts(there, &owners);
                }
            }
        }
        let mut remake = Recompile::new(&self.session, &self.next, &self.pinned.directory, catalog);
        for relayed in &self.next.hooks {
            remake.recompile_relay(&self.next.hooks, relayed, &table)?;
        }
        let passing = remake.into_programs();
        self.programs.extend(passing);
        match self.next.tables.iter_mut().find(|known| known.name == name) {
            // Until the new state is in its place the old table's programs go on: they are taken out after that.
            Some(known) => {
                self.next.retiring.push(known.retiring());
                *known = table;
            }
            None => self.next.tables.push(table),
        }
        self.next.next_table += 1;
        Ok(())
    }

    /// Refuses a jprobe on a function that a named probe has one on; tables beside each other may each have theirs, one of them is active.
    pub(in crate::session) fn no_second_jprobe(&self, hooks: &[Hook], catalog: &Catalog) -> Result<()> {
        let sites = self.next.probes.each.iter().flat_map(|probe| &probe.sites);
        let named = sites.map(|site| site.event.as_str());
        no_second(hooks, named, catalog)
    }

    /// Adds what the handlers of a plan use beside their hooks: objects, parameters, maps.
    pub(in crate::session) fn add_resources(&mut self, plan: &mut Plan) -> Result<()> {
        self.session.resources.objects.add(&plan.objects);
        allow_open_files(crate::session::attached::files(plan));
        self.loaded.warnings.append(&mut plan.warnings);
        for known in plan.globals.parameters.iter().skip(self.next.parameters.len()) {
            self.next.parameters.push(parameter(known));
        }
        let groups = std::mem::take(&mut plan.globals.control_groups);
        self.next.control_groups.extend(groups);
        self.maps(&plan.globals.maps)
    }

    /// Makes and pins the maps that the session does not have yet.
    fn maps(&mut self, types: &[MapType]) -> Result<()> {
        let (known, had) = (
            self.session.resources.maps.all().len(),
            self.session.resources.maps.state().is_some(),
        );
        self.session.resources.maps.add(types)?;
        if let Some(map) = self.session.resources.maps.state().filter(|_| !had) {
            self.pinned.directory.pin(map.as_fd(), pins::MAPS)?;
        }
        for (ty, map) in self.session.resources.maps.all().iter().skip(known) {
            self.pinned.directory.pin(map.as_fd(), &pins::map(&ty.name))?;
            if let Some(stacks) = self.session.resources.maps.stacks(&ty.name) {
                self.pinned
                    .directory
                    .pin(stacks.as_fd(), &pins::stacks(&ty.name))?;
            }
            // Its number may have been another's.
            self.session.resources.maps.reset_lost(ty.number)?;
        }
        self.next.maps = types.to_vec();
        Ok(())
    }

    /// The session as the planner sees it.
    pub(in crate::session) fn existing(&self, tables: Vec<String>) -> Result<Existing> {
        // A named probe's hook has no slots: it is shown as one without events.
        let events = |hook: &HookState| match hook.probe {
            Some(_) => Vec::new(),
            None => hook.events.iter().map(|event| event.name.clone()).collect(),
        };
        let hooks = self.next.hooks.iter().map(|hook| {
            let mechanism = hook.attached.clone().ok_or_else(|| Error::State {
                session: self.next.name.clone(),
                why: format!("hook {} is attached to nothing", hook.number),
            })?;
            Ok(ExistingHook {
                number: hook.number,
                is_relay: hook.relay.is_some(),
                kind: hook.kind.clone(),
                instances: events(hook),
                mechanism,
            })
        });
        Ok(Existing {
            globals: self.next.globals(tables.clone()),
            tables,
            buffers: self.next.buffer_plans(),
            target: ProcessFilter::All,
            hooks: hooks.collect::<Result<_>>()?,
            next_number: self.next.next_record,
        })
    }

    /// The programs for slots, where they are many, made by several threads.
    fn compile_all(&self, plan: &Plan, catalog: &Catalog) -> Vec<Option<Made>> {
        let types = catalog.types().ok();
        let (session, hooks, directory) = (&self.session.resources, &self.next.hooks, &self.pinned.directory);
        prepare::make_in_parallel(plan.hooks.len(), plan.hooks.len(), &|index| {
            // Objects are loaded in the order in which they are called.
            let hook = plan.hooks.get(index).filter(|hook| hook.most_calls() == 0)?;
            let there = hooks.get(hook.slot.as_ref()?.hook)?;
            let maps = HookMaps::open(directory, there).ok()?;
            Some(compile(session, plan, hook, there, &maps, types.as_ref()))
        })
    }

    /// Where a program for a slot of a hook that is there has what its handlers call.
    pub(in crate::session) fn number_calls(&self, hook: &mut Hook, into: &Slot) -> Result<()> {
        let there = &self.next.hooks[into.hook];
        hook.first_call = objects::free(&there.programs, hook.most_calls()).ok_or_else(|| {
            let why = format!(
                "a hook has room for {} programs of objects",
                kestrel_hook::hook::CALLS
            );
            full(&[hook.event()], &why)
        })?;
        Ok(())
    }

    /// A program for a slot of a hook that is there, which may be made already.
    fn fill(
        &mut self,
        plan: &Plan,
        index: usize,
        into: &Slot,
        (slot, made): (u32, Option<Made>),
        catalog: &Catalog,
    ) -> Result<()> {
        let hook = &plan.hooks[index];
        let there = &self.next.hooks[into.hook];
        let maps = HookMaps::open(&self.pinned.directory, there)?;
        let make = || {
            compile(
                &self.session.resources,
                plan,
                hook,
                there,
                &maps,
                catalog.types().ok().as_ref(),
            )
        };
        let (programs, way) = made.unwrap_or_else(make)?;
        maps.fill(slot, &programs)?;
        let mut state = program_state(hook, into, slot);
        self.session
            .resources
            .objects
            .describe_calls(hook, hook.strategies.get(way), &mut state);
        self.next.hooks[into.hook].programs.push(state);
        self.programs.extend(programs);
        Ok(())
    }

    /// A hook for events that the session does not see yet; it does nothing until its table is active.
    pub(in crate::session) fn hook(
        &mut self,
        plan: &mut Plan,
        index: usize,
        catalog: &Catalog,
    ) -> Result<()> {
        // Its events have its name, and no other probe's.
        self.renumber(&mut plan.hooks[index], &RecordIds::default())?;
        if self.needed > 0 {
            let kinds = |hook: &Hook| hook.strategies.first().map_or(0, |way| hook.classes(way).len());
            let later: usize = plan.hooks.iter().skip(index + 1).map(kinds).sum();
            let needed = self.needed + later as u32;
            return Err(Error::NoRoom {
                event: plan.hooks[index].event(),
                wanted: (needed - self.next.next_record) as usize,
                needed,
            });
        }
        self.attach(plan, index, None, catalog)
    }

    /// Attaches a hook that has its numbers; its program may be ready.
    fn attach(
        &mut self,
        plan: &Plan,
        index: usize,
        ready: Option<PreparedHook>,
        catalog: &Catalog,
    ) -> Result<()> {
        let before = self.session.hooks.len();
        let known = self.session.classes.clone();
        self.session.add(plan, index, ready, catalog)?;
        // They were given their numbers above.
        self.session.classes = known;
        self.loaded.skipped.append(&mut self.session.skipped);
        if let Some(attached) = self.session.hooks.get_mut(before) {
            let number = self.next.next_hook;
            attached.pin(number, &self.pinned.directory)?;
            // If the load fails, the links go and the next run sweeps the events.
            attached.links.persist();
            self.next.hooks.push(hook_state(
                number,
                &plan.hooks[index],
                attached,
                &self.session.resources.objects,
            ));
            self.next.next_hook += 1;
        }
        Ok(())
    }
}
