//! Changing the named probes of a session: all that one command asks for becomes part of it by one rename, or nothing does.

use super::request::ProbeRequest;
use super::site;
use super::status::{Flags, counted};
use super::text::{check_name, file, rooted};
use super::{ProbeIdentity, TABLE, kernel_line};
use crate::plan::plan_named;
use crate::plan::{Hook, no_second, room_to_grow};
use crate::session::in_progress::LoadInProgress;
use crate::session::maps::Maps;
use crate::session::metadata::Description;
use crate::session::pinned::{Change, PinnedSession};
use crate::session::state::{Arming, Baseline, HookState, ProbeState, State, TableState};
use crate::session::transaction::{Retired, Staged};
use crate::session::{Skipped, pins};
use kestrel_catalog::catalog::{Catalog, Via};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::{Diagnostic, nearest};
use kestrel_hook::hook::control::{MAX_PROBES, MAX_TABLES, ProbeWord};
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, ValueCheck};
use kestrel_kernel::procfs::ClockPair;
use kestrel_trace::aggregate::MapType;
use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// Result of adding probes.
#[derive(Debug, Default)]
pub struct Added {
    /// Number of programs attached.
    pub programs: usize,
    /// Warnings about the probes' handlers.
    pub warnings: Vec<(String, Diagnostic)>,
    /// Events that this kernel does not let be attached, and only a pattern named.
    pub left_out: Vec<Skipped>,
}

impl PinnedSession {
    /// Refuses the table of named probes, which is changed probe by probe.
    pub(in crate::session) fn not_of_probes(&self, action: &'static str, table: &str) -> Result<()> {
        let found = self.state.table(table).map(|table| table.number);
        if found.is_none() || found != self.state.probes.table {
            return Ok(());
        }
        Err(Error::TableInUse {
            action,
            table: table.to_owned(),
            why: "it holds the named probes, which work beside the active table; `kestrel probe` adds, removes and switches them".to_owned(),
        })
    }
}

impl Change {
    /// Adds named probes; with `replace`, a probe of the same name goes at the same moment. All of them, or none.
    ///
    /// # Errors
    /// The first that is wrong, or that the kernel refused: then the session is as it was before.
    pub fn add_probes(
        &mut self,
        requests: &[ProbeRequest],
        replace: bool,
        catalog: &Catalog,
    ) -> Result<Added> {
        match self.try_add_probes(requests, replace, catalog) {
            Err(Error::NoRoom { needed, .. }) if needed <= u32::from(u16::MAX) + 1 => {
                self.make_room(room_to_grow(needed), catalog)?;
                self.try_add_probes(requests, replace, catalog)
            }
            other => other,
        }
    }

    /// Adds probes where the buffers have room for the counts of all kinds of record.
    fn try_add_probes(
        &mut self,
        requests: &[ProbeRequest],
        replace: bool,
        catalog: &Catalog,
    ) -> Result<Added> {
        for (index, request) in requests.iter().enumerate() {
            check_name(&request.name)?;
            let twice = requests[..index].iter().any(|other| other.name == request.name);
            let there = self.state.probes.each.iter().any(|p| p.name == request.name);
            if twice || there && !replace {
                return Err(Error::ProbeExists {
                    name: request.name.clone(),
                    session: self.state.name.clone(),
                });
            }
        }
        self.transact(|change| {
            let mut loading = LoadInProgress::begin(&change.session)?;
            loading.session.resources.hits = Some(change.hits()?);
            let gone = take_out(&mut loading.next, |probe| {
                requests.iter().any(|request| request.name == probe.name)
            });
            let mut numbers = Vec::new();
            for request in requests {
                let made = loading.named(request, catalog);
                let number = made.map_err(|error| of_probe(&request.name, error))?;
                numbers.extend((!request.disabled).then_some(number));
            }
            let LoadInProgress {
                session,
                mut next,
                loaded,
                ..
            } = loading;
            next.objects
                .extend(session.resources.objects.pin(&change.session.directory)?);
            let retired = retire(&mut next, gone);
            let mut info = session.info.clone();
            info.events.clone_from(&session.classes);
            let description = Description::create(&info, next.generation + 1)?;
            // One of its name may have kept something before it went; of one that goes now, the new one takes it over.
            let old = |name: &String| change.state.probes.each.iter().any(|probe| probe.name == *name);
            let fresh = next
                .probes
                .each
                .iter()
                .filter(|probe| numbers.contains(&probe.number));
            let fresh: Vec<u32> = fresh.filter(|p| !old(&p.name)).map(|p| p.number).collect();
            forget_calls(&session.resources.maps, of_probes(&next, &fresh))?;
            next.probes.arming = Some(Arming {
                generation: next.generation + 1,
                probes: numbers,
            });
            let added = Added {
                programs: session.hooks.len(),
                warnings: loaded.warnings,
                left_out: loaded.skipped,
            };
            let staged = Staged {
                description: Some(description),
                objects: Some(session.resources.objects),
                retired,
                ..Staged::of(next)
            };
            Ok((staged, added))
        })
    }

    /// Removes named probes: they do nothing any more when this returns; the kernel goes on detaching them for a while.
    ///
    /// # Errors
    /// [`Error::NoSuchProbe`]: then none is removed.
    pub fn remove_probes(&mut self, names: &[String]) -> Result<()> {
        self.check_probes(names)?;
        let mut next = self.state.clone();
        let gone = take_out(&mut next, |probe| names.contains(&probe.name));
        let retired = retire(&mut next, gone);
        let staged = Staged {
            retired,
            ..Staged::of(next)
        };
        self.transact(|_| Ok((staged, ())))
    }

    /// Enables or disables named probes, each from its next event on. One whose module was unloaded and loaded again is attached anew when it is
    /// enabled, and so is one whose line names symbols that were not there when it was read, or were elsewhere.
    ///
    /// # Errors
    /// [`Error::NoSuchProbe`]: then none is changed.
    pub fn enable_probes(&mut self, names: &[String], enable: bool, catalog: &Catalog) -> Result<()> {
        self.check_probes(names)?;
        let meant = |probe: &&ProbeState| names.contains(&probe.name);
        if enable {
            let gone = self.gone(catalog.host(), |flags| flags.maybe_gone);
            let again = self.state.probes.each.iter().filter(meant).filter_map(|probe| {
                let source = source_now(probe, catalog);
                let request = || ProbeRequest {
                    name: probe.name.clone(),
                    source: source.clone(),
                    line: probe.line.clone(),
                    ..ProbeRequest::default()
                };
                (gone.contains(&probe.number) || source != probe.source).then(request)
            });
            let again: Vec<ProbeRequest> = again.collect();
            if !again.is_empty() {
                self.add_probes(&again, true, catalog)?;
            }
        }
        let probes: Vec<&ProbeState> = self.state.probes.each.iter().filter(meant).collect();
        let still = |probe: &&&ProbeState| self.control.probe(probe.place).number() != probe.number;
        let changed: Vec<u32> = match enable {
            true => probes.iter().filter(still).map(|probe| probe.number).collect(),
            false => probes.iter().map(|probe| probe.number).collect(),
        };
        let forget = || forget_calls(&self.maps()?, of_probes(&self.state, &changed));
        if enable {
            forget()?;
        }
        for probe in probes {
            let word = if enable { probe.word() } else { ProbeWord::NONE };
            self.control.set_probe(probe.place, word);
        }
        if enable { Ok(()) } else { forget() }
    }

    /// The global switch: off, no named probe does anything; on again, those work that are not disabled themselves.
    ///
    /// # Errors
    /// The kernel's, where a probe keeps something of calls that are under way and that cannot be forgotten.
    pub fn switch_probes(&self, on: bool) -> Result<()> {
        let was = self.control.probes_on();
        let all: Vec<u32> = self.state.probes.each.iter().map(|probe| probe.number).collect();
        let forget = || forget_calls(&self.maps()?, of_probes(&self.state, &all));
        if on && !was {
            forget()?;
        }
        self.control.switch_probes(on);
        if on { Ok(()) } else { forget() }
    }

    fn check_probes(&self, names: &[String]) -> Result<()> {
        let known: Vec<&str> = self.state.probes.each.iter().map(|p| p.name.as_str()).collect();
        match names.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(wanted) => Err(Error::NoSuchProbe {
                wanted: wanted.clone(),
                session: self.state.name.clone(),
                near: nearest(wanted, known).into_iter().map(str::to_owned).collect(),
            }),
        }
    }

    /// Gives the probes of the state their words, and takes them from those that it does not have.
    pub(in crate::session) fn arm(&self) {
        let state = &self.state;
        if self.control.armed() == state.generation {
            return;
        }
        let arming = state.probes.arming.as_ref();
        let arming = arming.filter(|arming| arming.generation == state.generation);
        let mut owners = vec![0; MAX_PROBES as usize];
        for probe in &state.probes.each {
            owners[probe.place as usize % MAX_PROBES as usize] = probe.number;
            // One that works goes over to the programs that are in force now: one store.
            let works = self.control.probe(probe.place).number() == probe.number;
            if works || arming.is_some_and(|arming| arming.probes.contains(&probe.number)) {
                self.control.set_probe(probe.place, probe.word());
            }
        }
        for (place, owner) in (0..MAX_PROBES).zip(owners) {
            let word = self.control.probe(place);
            if word != ProbeWord::NONE && word.number() != owner {
                self.control.set_probe(place, ProbeWord::NONE);
            }
        }
        self.control.set_armed(state.generation);
    }

    /// Takes what was counted for the events of hooks that have gone out of maps without a name: the next of their names begins at 0.
    pub(in crate::session) fn forget(&self, gone: &[HookState]) -> Result<()> {
        let numbers: Vec<u64> = gone.iter().filter_map(bare_number).map(u64::from).collect();
        let uses: BTreeSet<u32> = rows(gone).flat_map(|row| row.maps.iter().copied()).collect();
        if numbers.is_empty() || uses.is_empty() {
            return Ok(());
        }
        // A probe that was removed still has its word, and counts.
        let places: BTreeSet<u32> = self.state.probes.each.iter().map(|probe| probe.place).collect();
        for place in (0..MAX_PROBES).filter(|place| !places.contains(place)) {
            self.control.set_probe(place, ProbeWord::NONE);
        }
        let maps = self.maps()?;
        uses.into_iter().try_for_each(|map| maps.forget(map, &numbers))
    }

    /// The counts of hits; made where this is the session's first named probe.
    fn hits(&self) -> Result<Map> {
        let directory = &self.session.directory;
        if directory.names()?.iter().any(|name| name == pins::HITS) {
            return directory.map(pins::HITS);
        }
        let map = Map::create(&MapSpec::new(
            MapKind::PERCPU_ARRAY,
            "kestrel_hits",
            4,
            8,
            MAX_PROBES,
        ))?;
        directory.pin(map.as_fd(), pins::HITS)?;
        Ok(map)
    }
}

/// A probe's text; of one that was a line, what that says now.
fn source_now(probe: &ProbeState, catalog: &Catalog) -> String {
    let line = probe.line.as_deref();
    let read = line.and_then(|line| kernel_line::read(line, catalog).ok());
    read.map_or_else(|| probe.source.clone(), |request| request.source)
}

/// Takes away what hooks that do nothing now keep of instructions and calls that have begun: their end will not be seen, and another that looks the
/// same would be taken for it.
fn forget_calls<'h>(maps: &Maps, hooks: impl Iterator<Item = &'h HookState>) -> Result<()> {
    let rows = hooks.flat_map(|hook| &hook.programs).flat_map(|p| &p.rows);
    let uses: BTreeSet<u32> = rows.flat_map(|row| row.maps.iter().copied()).collect();
    let hidden = |(ty, _): &(MapType, Map)| ty.is_hidden() && uses.contains(&ty.number);
    if !maps.all().iter().any(hidden) {
        return Ok(());
    }
    // One that read its word before it was changed may be keeping something yet.
    wait_for_running_programs()?;
    maps.empty_hidden(&uses)
}

/// The hooks of some probes.
fn of_probes<'s>(state: &'s State, numbers: &[u32]) -> impl Iterator<Item = &'s HookState> {
    let of = |hook: &&HookState| hook.probe.is_some_and(|probe| numbers.contains(&probe));
    state.hooks.iter().filter(of)
}

/// Takes probes out of a state; gives their hooks.
fn take_out(next: &mut State, which: impl Fn(&ProbeState) -> bool) -> Vec<HookState> {
    let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut next.probes.each).into_iter().partition(which);
    next.probes.each = kept;
    let numbers: Vec<u32> = gone.iter().map(|probe| probe.number).collect();
    let of = |hook: &HookState| hook.probe.is_some_and(|probe| numbers.contains(&probe));
    let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut next.hooks).into_iter().partition(of);
    next.hooks = kept;
    gone
}

/// Pins and state that are retired with these hooks: maps that only they kept something in, and compiled objects that no row calls any more.
fn retire(next: &mut State, hooks: Vec<HookState>) -> Retired {
    Retired {
        maps: let_go(next, &hooks),
        objects: next.forget_objects(),
        hooks,
    }
}

/// Removes from a state the maps that only these hooks used for themselves, and returns them. Maps that people can name are kept.
fn let_go(next: &mut State, gone: &[HookState]) -> Vec<MapType> {
    let used = |hooks: &[HookState]| -> BTreeSet<u32> {
        rows(hooks).flat_map(|row| row.maps.iter().copied()).collect()
    };
    let (theirs, others) = (used(gone), used(&next.hooks));
    let unused =
        |map: &MapType| map.is_hidden() && theirs.contains(&map.number) && !others.contains(&map.number);
    let (unused, kept) = std::mem::take(&mut next.maps).into_iter().partition(unused);
    next.maps = kept;
    unused
}

fn rows(hooks: &[HookState]) -> impl Iterator<Item = &crate::session::state::HandlerState> {
    hooks.iter().flat_map(|hook| &hook.programs).flat_map(|p| &p.rows)
}

/// The number of a hook that only counts under it: a probe of its name will have it again.
fn bare_number(hook: &HookState) -> Option<u16> {
    let [program] = hook.programs.as_slice() else {
        return None;
    };
    let silent = program.rows.iter().all(|row| row.records == 0) && program.messages.is_empty();
    (silent && hook.events.len() == 1).then_some(program.first)
}

pub(super) fn of_probe(name: &str, error: Error) -> Error {
    match error {
        // They show the text.
        Error::Program { .. } | Error::Table { .. } | Error::Rejected(_) | Error::NoRoom { .. } => error,
        other => Error::OfProbe {
            name: name.to_owned(),
            error: Box::new(other),
        },
    }
}

impl LoadInProgress<'_> {
    /// Makes one named probe; gives its number.
    fn named(&mut self, request: &ProbeRequest, catalog: &Catalog) -> Result<u32> {
        let source = rooted(file(&request.name, &request.source)?, &request.beside)?;
        let mut file = file(&request.name, &source)?;
        file.objection.clone_from(&request.objection);
        let table = self.table_of_probes()?;
        let own = self.own()?;
        let existing = self.existing(self.next.places.clone())?;
        let mut plan = plan_named(&existing, &file, table, catalog, Via::Auto)?;
        if plan.hooks.is_empty() {
            return Err(nothing_to_do(request));
        }
        self.one_jprobe(&plan.hooks, catalog)?;
        self.add_resources(&mut plan)?;
        let mut sites = Vec::new();
        let mut before = (0, 0);
        for index in 0..plan.hooks.len() {
            let events = rename(&mut plan.hooks[index], own, &request.name);
            let there = self.next.hooks.len();
            self.hook(&mut plan, index, catalog)?;
            let Some(hook) = self.next.hooks.get_mut(there) else {
                continue;
            };
            for (known, event) in hook.events.iter_mut().zip(&events) {
                known.event = Some(event.clone());
            }
            let hook = &*hook;
            let links = self
                .session
                .hooks
                .last()
                .map_or(&[][..], |attached| attached.links.each());
            if !plan.hooks[index].companion {
                sites.extend(site::of(hook, &plan.hooks[index], links, &events, catalog));
            }
            // Its record numbers may have been a removed probe's, whose counts are not its own.
            let counts = counted(hook, &self.session.resources.buffers);
            for (kept, lost) in &counts {
                before = (before.0 + kept, before.1 + lost);
            }
            let row = self.next.hooks[there].programs[0].rows.first_mut();
            if let Some(row) = row.filter(|_| before != (0, 0)) {
                row.reset = Some(Baseline {
                    at: self.now,
                    counts,
                    missed: 0,
                });
            }
        }
        if sites.is_empty() {
            return Err(nothing_attached(self.loaded.skipped.last()));
        }
        if let Some(hits) = &self.session.resources.hits {
            let zeros = vec![0; hits.element_size()];
            // A removed probe had this place, and left its hits in it.
            hits.update(&own.place.to_ne_bytes(), &zeros, ValueCheck::Any)?;
        }
        self.next.probes.last = own.number;
        self.next.probes.each.push(ProbeState {
            name: request.name.clone(),
            number: own.number,
            place: own.place,
            slot: None,
            source,
            line: request.line.clone(),
            added: self.now.max(ClockPair::now().realtime),
            sites,
            before,
        });
        Ok(own.number)
    }

    /// Refuses a jprobe on a function that has one already, a named probe's or a table's.
    fn one_jprobe(&self, hooks: &[Hook], catalog: &Catalog) -> Result<()> {
        self.no_second_jprobe(hooks, catalog)?;
        let tables = self.next.hooks.iter().filter(|hook| hook.probe.is_none());
        let there = tables
            .flat_map(|hook| &hook.events)
            .map(|event| event.name.as_str());
        no_second(hooks, there, catalog)
    }

    /// The number of the named probes' table, which comes with the first of them.
    fn table_of_probes(&mut self) -> Result<u32> {
        if let Some(number) = self.next.probes.table {
            return Ok(number);
        }
        if self.next.table(TABLE).is_some() {
            return Err(Error::TableInUse {
                action: "put named probes into",
                table: TABLE.to_owned(),
                why: "it is one of the session's own; choose another session".to_owned(),
            });
        }
        let number = self.next.next_table;
        self.next.next_table += 1;
        self.next.probes.table = Some(number);
        self.next.tables.push(TableState {
            name: TABLE.to_owned(),
            number,
            // None that a handler could switch to.
            place: MAX_TABLES,
            loaded: self.now,
            ..TableState::default()
        });
        Ok(number)
    }

    /// The next number, and a place that was not used for as long as possible.
    fn own(&self) -> Result<ProbeIdentity> {
        let number = self.next.probes.last + 1;
        let taken: BTreeSet<u32> = self.next.probes.each.iter().map(|probe| probe.place).collect();
        let mut places = (0..MAX_PROBES).map(|at| number.wrapping_add(at) % MAX_PROBES);
        let place = places.find(|place| !taken.contains(place));
        let place = place.ok_or_else(|| Error::Unsupported {
            what: "one more probe".to_owned(),
            why: format!("a session has room for {MAX_PROBES}"),
        })?;
        Ok(ProbeIdentity {
            place,
            number,
            counted: true,
        })
    }
}

/// Lets a hook be a named probe's: its records bear the probe's name. Gives its events' names.
fn rename(hook: &mut Hook, own: ProbeIdentity, name: &str) -> Vec<String> {
    let counted = !hook.companion;
    hook.named_probe = Some(ProbeIdentity { counted, ..own });
    let many = hook.instances.len() > 1;
    let mut events = Vec::new();
    for instance in &mut hook.instances {
        let short = instance.symbol.as_deref().unwrap_or(&instance.name);
        let new = match many {
            true => format!("{name}:{short}"),
            false => name.to_owned(),
        };
        events.push(std::mem::replace(&mut instance.name, new));
    }
    events
}

pub(super) fn nothing_to_do(request: &ProbeRequest) -> Error {
    Error::Compile {
        event: request.source.clone(),
        why: "it has no handler: an empty block masks its events".to_owned(),
    }
}

fn nothing_attached(left_out: Option<&Skipped>) -> Error {
    Error::Compile {
        event: left_out.map_or_else(String::new, |left_out| left_out.event.clone()),
        why: left_out.map_or_else(
            || "nothing was attached".to_owned(),
            |left_out| left_out.why.clone(),
        ),
    }
}

impl PinnedSession {
    /// Numbers of the probes that sit in a module which was unloaded, by what the kernel says of their places.
    pub(in crate::session) fn gone(
        &self,
        host: &kestrel_kernel::Host,
        is_gone: impl Fn(&Flags) -> bool,
    ) -> Vec<u32> {
        let Ok(all) = self.probes(host) else {
            return Vec::new();
        };
        let gone = all
            .iter()
            .filter(|probe| probe.sites.iter().any(|site| is_gone(&site.flags)));
        gone.map(|probe| probe.number).collect()
    }
}
