//! Tables for a session that runs: handlers for the slots of its hooks, hooks for events that it does not see yet; replacing and taking out.
//!
//! What is new is made and pinned under names that the old state does not mention; the new state, put in the old one's place by one rename, is
//! what makes it part of the session. What it replaces is in the new state as *retiring*, and is taken out by [`Change::settle`], here or, if
//! this process is killed, by the next command.

use super::metadata::Description;
use super::objects;
use super::pinned::{Change, PinnedSession};
use super::pins::{self, Directory};
use super::prepare::{self, Ready};
use super::recompile::Remake;
use super::record_ids::Owners;
use super::start::hook_state;
use super::state::{
    BufferState, HookState, ProgramState, Retiring, RowState, State, TableState, messages, parameter, uses,
};
use super::{Session, Skipped, event_of, rejection, relay};
use crate::plan::{BufferPlan, Hook, Plan, Slot, no_second, room_to_grow};
use crate::plan::{Existing, ExistingHook, plan_load};
use kestrel_bpf::btf::Btf;
use kestrel_catalog::attach::turn;
use kestrel_catalog::catalog::{Catalog, Via};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_hook::hook::dispatch;
use kestrel_hook::hook::process_filter::Target;
use kestrel_hook::hook::second_chance::{self, Place};
use kestrel_hook::table::TableFile;
use kestrel_kernel::bpf::{Map, Program};
use kestrel_kernel::process::allow_open_files;
use kestrel_kernel::procfs::ClockPair;
use kestrel_trace::aggregate::MapType;
use std::os::fd::AsFd;
use std::sync::Arc;

/// What came of loading.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Remarks about the file's text.
    pub warnings: Vec<(String, Diagnostic)>,
    /// Events that this kernel does not let be attached, and only a pattern named.
    pub left_out: Vec<Skipped>,
    /// System calls that are seen at their tracepoint from now on, and no longer at their function: a call that was between the two at that moment is missed.
    pub moved: Vec<String>,
    /// Why the handlers that were there were not made anew for an object's hook beside theirs: an event that the kernel skips in that hook may be handled by two tables
    /// when they are switched meanwhile. The next change tries again.
    pub not_told: Option<Error>,
}

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

    /// The same where the buffers have room for the counts of all kinds of record.
    fn try_load(
        &mut self,
        file: &TableFile,
        names: &[String],
        catalog: &Catalog,
        via: Via,
    ) -> Result<Loaded> {
        let mut loading = Loading::begin(&self.session)?;
        let control = self.session.directory.map(pins::CONTROL)?;
        self.session.directory.pin(control.as_fd(), pins::FILLING)?;
        let made = loading.tables(file, names, catalog, via);
        let Loading {
            session,
            mut next,
            loaded,
            programs,
            ..
        } = loading;
        let made = made.and_then(|()| session.objects.pin(&self.session.directory));
        match made {
            Ok(objects) => next.objects.extend(objects),
            Err(error) => {
                self.sweep()?;
                return Err(error);
            }
        }
        let mut info = session.info.clone();
        info.events = session.classes.clone();
        let new = session.hooks.iter().map(|hook| &hook.program).chain(&programs);
        let described = Description::create(&info, next.generation + 1)
            .and_then(|meta| meta.bind(new).map(|()| meta))
            .and_then(|meta| meta.pin(&self.session.directory));
        if let Err(error) = described {
            self.sweep()?;
            return Err(error);
        }
        for (place, value) in next
            .parameters
            .iter()
            .enumerate()
            .skip(self.state.parameters.len())
        {
            self.control.set_parameter(place, value.start);
        }
        if let Err(error) = self.write(next) {
            self.sweep()?;
            return Err(error);
        }
        session.objects.keep();
        self.session.directory.remove(pins::FILLING)?;
        self.settle()?;
        // The tables are in; the rest the next change tries again.
        let not_told = self.tell_of_relays(catalog).err();
        Ok(Loaded { not_told, ..loaded })
    }

    /// Makes all handlers anew where there are relays that those which are there do not know: they take away what a skipped one left.
    pub(super) fn tell_of_relays(&mut self, catalog: &Catalog) -> Result<()> {
        if self.state.untold_relays().is_empty() {
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
        next.retiring.push(retire(&table));
        self.write(next)?;
        self.settle()
    }
}

pub(super) fn retire(table: &TableState) -> Retiring {
    Retiring {
        number: table.number,
        place: table.place,
        slot: table.slot,
    }
}

/// A load on its way: the session's next state, and what is made for it.
pub(super) struct Loading<'a> {
    pub(super) pinned: &'a PinnedSession,
    /// The session's maps, for programs to be bound to; hooks and classes that are added.
    pub(super) session: Session,
    pub(super) next: State,
    pub(super) loaded: Loaded,
    /// Programs that were put into slots.
    pub(super) programs: Vec<Program>,
    pub(super) now: u64,
    /// How many kinds of record the buffers must have room for, where that is more than they have: then nothing is made any more, only counted.
    pub(super) needed: u32,
}

impl<'a> Loading<'a> {
    pub(super) fn begin(pinned: &'a PinnedSession) -> Result<Self> {
        let mut session = pinned.session()?;
        let next = pinned.state.clone();
        // What a killed command described was never recorded.
        session
            .classes
            .retain(|class| u32::from(class.id.0) < next.next_record);
        Ok(Self {
            pinned,
            session,
            next,
            loaded: Loaded::default(),
            programs: Vec::new(),
            now: ClockPair::now().realtime,
            needed: 0,
        })
    }

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
        if self.next.places.len() > kestrel_hook::hook::control::MOST_TABLES as usize {
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
            &self.existing(names_in(&self.next))?,
            file,
            name,
            number,
            catalog,
            via,
        )?;
        self.no_second_jprobe(&plan.hooks, catalog)?;
        self.session.objects.add(&plan.objects);
        allow_open_files(super::files(&plan));
        self.loaded.warnings.append(&mut plan.warnings);
        for known in plan.globals.parameters.iter().skip(self.next.parameters.len()) {
            self.next.parameters.push(parameter(known));
        }
        self.maps(&plan.globals.maps)?;
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
        let _turn = turn(catalog.host());
        let before = self.next.clone();
        let owners = Owners::of(&before, before.table(name).map(|table| table.number));
        for index in 0..plan.hooks.len() {
            match plan.hooks[index].slot.clone() {
                Some(into) => self.number_in_slot(&mut plan, index, &into, &owners)?,
                None => self.renumber(&mut plan.hooks[index], &owners)?,
            }
        }
        if self.needed > 0 {
            return Ok(());
        }
        let is_relayed = plan.hooks.iter().any(|hook| hook.relay.is_some());
        if is_relayed && 2 * self.next.tables.len() + 2 > kestrel_hook::hook::SLOTS as usize {
            let why = "an object is of another type than the session's hook, so all handlers are made anew, and there are too few free slots for that: unload some tables first";
            return Err(full(&one, why));
        }
        if is_relayed && self.session.relay.is_none() {
            let map = relay::create_map()?;
            self.pinned.directory.pin(map.as_fd(), pins::RELAY)?;
            self.session.relay = Some(map);
        }
        for hook in &mut plan.hooks {
            let there = hook.slot.as_ref().map(|slot| self.next.hooks[slot.hook].number);
            let relays = self.next.hooks.iter().filter_map(|hook| hook.relay);
            hook.leads = relays.filter(|relay| Some(relay.from) == there).collect();
        }
        let mut ready = prepare::prepare(&self.session, &plan, catalog);
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
        let mut remake = Remake::new(&self.session, &self.next, &self.pinned.directory, catalog);
        for relayed in &self.next.hooks {
            remake.pass_on(&self.next.hooks, relayed, &table)?;
        }
        let passing = remake.into_programs();
        self.programs.extend(passing);
        match self.next.tables.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                self.next.retiring.push(retire(known));
                *known = table;
            }
            None => self.next.tables.push(table),
        }
        self.next.next_table += 1;
        Ok(())
    }

    /// Refuses a jprobe on a function that a named probe has one on; tables beside each other may each have theirs, one of them is active.
    pub(super) fn no_second_jprobe(&self, hooks: &[Hook], catalog: &Catalog) -> Result<()> {
        let sites = self.next.probes.each.iter().flat_map(|probe| &probe.sites);
        let named = sites.map(|site| site.event.as_str());
        no_second(hooks, named, catalog)
    }

    /// Makes and pins the maps that the session does not have yet.
    pub(super) fn maps(&mut self, types: &[MapType]) -> Result<()> {
        let (known, had) = (self.session.maps.all().len(), self.session.maps.state().is_some());
        self.session.maps.add(types)?;
        if let Some(map) = self.session.maps.state().filter(|_| !had) {
            self.pinned.directory.pin(map.as_fd(), pins::MAPS)?;
        }
        for (ty, map) in self.session.maps.all().iter().skip(known) {
            self.pinned.directory.pin(map.as_fd(), &pins::map(&ty.name))?;
            // Its number may have been another's.
            self.session.maps.reset_lost(ty.number)?;
        }
        self.next.maps = types.to_vec();
        Ok(())
    }

    /// The session as a plan is told of it.
    pub(super) fn existing(&self, tables: Vec<String>) -> Result<Existing> {
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
            globals: globals(&self.next, tables.clone()),
            tables,
            buffers: buffers(&self.next),
            target: Target::All,
            hooks: hooks.collect::<Result<_>>()?,
            next_number: self.next.next_record,
        })
    }

    /// The programs for slots, where they are many, made by several threads.
    fn compile_all(&self, plan: &Plan, catalog: &Catalog) -> Vec<Option<Made>> {
        let types = catalog.types().ok();
        let (session, hooks, directory) = (&self.session, &self.next.hooks, &self.pinned.directory);
        prepare::each(plan.hooks.len(), &|index| {
            // Objects are loaded in the order in which they are called.
            let hook = plan.hooks.get(index).filter(|hook| hook.most_calls() == 0)?;
            let there = hooks.get(hook.slot.as_ref()?.hook)?;
            let maps = HookMaps::open(directory, there).ok()?;
            Some(compile(session, plan, hook, there, &maps, types.as_ref()))
        })
    }

    /// Where a program for a slot of a hook that is there has what its handlers call.
    pub(super) fn number_calls(&self, hook: &mut Hook, into: &Slot) -> Result<()> {
        let there = &self.next.hooks[into.hook];
        hook.first_call = objects::free(&there.programs, hook.most_calls()).ok_or_else(|| {
            let why = format!(
                "a hook has room for {} programs of objects",
                kestrel_hook::hook::CALLS
            );
            full(&[event_of(hook)], &why)
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
                &self.session,
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
        self.session.objects.tell(hook, hook.ways.get(way), &mut state);
        self.next.hooks[into.hook].programs.push(state);
        self.programs.extend(programs);
        Ok(())
    }

    /// A hook for events that the session does not see yet; it does nothing until its table is active.
    pub(super) fn hook(&mut self, plan: &mut Plan, index: usize, catalog: &Catalog) -> Result<()> {
        // Its events have its name: nobody else's.
        self.renumber(&mut plan.hooks[index], &Owners::default())?;
        if self.needed > 0 {
            let kinds = |hook: &Hook| hook.ways.first().map_or(0, |way| hook.classes(way).len());
            let later: usize = plan.hooks.iter().skip(index + 1).map(kinds).sum();
            let needed = self.needed + later as u32;
            return Err(Error::NoRoom {
                event: event_of(&plan.hooks[index]),
                wanted: (needed - self.next.next_record) as usize,
                needed,
            });
        }
        self.attach(plan, index, None, catalog)
    }

    /// The same once it has its numbers; its program may be ready.
    fn attach(&mut self, plan: &Plan, index: usize, ready: Option<Ready>, catalog: &Catalog) -> Result<()> {
        let before = self.session.hooks.len();
        let known = self.session.classes.clone();
        self.session.add(plan, index, ready, catalog)?;
        // They were given their numbers above.
        self.session.classes = known;
        self.loaded.left_out.append(&mut self.session.left_out);
        if let Some(attached) = self.session.hooks.get_mut(before) {
            let number = self.next.next_hook;
            attached.pin(number, &self.pinned.directory)?;
            // If the load fails, the links go and the next run sweeps the events.
            attached.links.leave();
            self.next.hooks.push(hook_state(
                number,
                &plan.hooks[index],
                attached,
                &self.session.objects,
            ));
            self.next.next_hook += 1;
        }
        Ok(())
    }
}

/// What the handlers of a session share.
pub(super) fn globals(state: &State, tables: Vec<String>) -> Globals {
    Globals {
        tables,
        buffers: state.buffers.iter().map(|b| b.name.clone()).collect(),
        parameters: state.parameters.iter().map(|p| p.parameter()).collect(),
        messages: true,
        persistent: true,
        maps: state.maps.clone(),
        ..Globals::default()
    }
}

/// The buffers of a session.
pub(super) fn buffers(state: &State) -> Vec<BufferPlan> {
    let of = |buffer: &BufferState| BufferPlan {
        name: buffer.name.clone(),
        geometry: buffer.geometry(),
        process: buffer.process.clone(),
    };
    state.buffers.iter().map(of).collect()
}

/// A program for each that is attached, and which of the hook's ways they are.
type Made = Result<(Vec<Program>, usize)>;

/// The maps of a hook that is there, as programs that it calls need them.
pub(super) struct HookMaps {
    /// For each of the programs that are attached.
    slots: Vec<Map>,
    /// The hits that were seen, where several are.
    seen: Option<Map>,
}

impl HookMaps {
    pub(super) fn open(directory: &Directory, hook: &HookState) -> Result<Self> {
        let programs = 0..hook.copies.max(1);
        let slots = programs.map(|program| directory.map(&pins::slots(hook.number, program)));
        let seen = || directory.map(&pins::seen(hook.number));
        Ok(Self {
            slots: slots.collect::<Result<_>>()?,
            seen: (hook.copies > 0).then(seen).transpose()?,
        })
    }

    /// So many handlers have room in each.
    pub(super) fn room(&self) -> u32 {
        self.slots
            .iter()
            .map(|slots| slots.info().entries)
            .min()
            .unwrap_or(0)
    }

    /// Puts programs, one for each that is attached, into a slot.
    pub(super) fn fill(&self, slot: u32, programs: &[Program]) -> Result<()> {
        for (slots, program) in self.slots.iter().zip(programs) {
            slots.set_slot(slot, program.as_fd())?;
        }
        Ok(())
    }

    /// Empties a slot.
    pub(super) fn clear(&self, slot: u32) -> Result<()> {
        for slots in &self.slots {
            slots.delete(&slot.to_ne_bytes())?;
        }
        Ok(())
    }
}

/// The programs for a slot of a hook that is there, bound to the session's maps.
pub(super) fn compile(
    session: &Session,
    plan: &Plan,
    hook: &Hook,
    there: &HookState,
    maps: &HookMaps,
    types: Option<&Arc<Btf>>,
) -> Made {
    let event = event_of(hook);
    let mut last = None;
    for (index, way) in hook.ways.iter().enumerate() {
        let numbers = way.context.selector.as_ref();
        let numbers = numbers.map(|s| super::numbers_map(hook, &s.map)).transpose()?;
        let kind = way.mechanism.called_kind(there.multi)?;
        let mut programs = Vec::new();
        let first = (there.copies > 0).then_some(Place::FIRST);
        let places = std::iter::once(first).chain(second_chance::later(there.copies).map(Some));
        for (place, slots) in places.zip(&maps.slots) {
            let compiled = hook.compile(way, plan, place)?;
            let given = numbers.iter().map(|(name, map)| (name.as_str(), map));
            let seen = maps.seen.as_ref().map(|seen| (second_chance::MAP, seen));
            let given: Vec<_> = given.chain([(dispatch::SLOTS, slots)]).chain(seen).collect();
            match session.load(&event, kind, &compiled.code, &compiled.maps, types, &given) {
                Ok((program, _)) => programs.push(program),
                Err(error) => {
                    let source = hook.rows.first().map_or("", |row| &row.source);
                    last = Some(rejection::explain(error, &event, source, &compiled.code));
                    break;
                }
            }
        }
        if programs.len() == maps.slots.len() {
            let calls = hook.calls(way);
            // When it is made anew, what it calls is there.
            if let Some(slots) = maps.slots.first().filter(|_| hook.known_calls.is_empty()) {
                session.objects.fill(slots, &calls, kind)?;
            }
            return Ok((programs, index));
        }
    }
    Err(last.unwrap_or(Error::Compile {
        event,
        why: "no way to see it was found".to_owned(),
    }))
}

pub(super) fn names_in(state: &State) -> Vec<String> {
    state.places.clone()
}

pub(super) fn full(names: &[String], why: &str) -> Error {
    Error::TableInUse {
        action: "load",
        table: names.join(", "),
        why: why.to_owned(),
    }
}

pub(super) fn program_state(hook: &Hook, into: &Slot, slot: u32) -> ProgramState {
    let way = hook.ways.first();
    let row = |(index, (row, events)): (usize, (&crate::plan::Row, &Vec<u16>))| {
        let handler = way.and_then(|way| way.handlers.get(index));
        RowState::of(row, handler, events.iter().map(|at| into.place(*at)).collect())
    };
    ProgramState {
        slot: Some(slot),
        first: hook.first,
        records: hook.records.max(1),
        rows: hook.rows.iter().zip(&into.sets).enumerate().map(row).collect(),
        events: into.events.clone(),
        messages: way.map_or_else(Vec::new, |way| messages(&way.handlers)),
    }
}
