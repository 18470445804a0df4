//! Another size for a buffer of a session that runs: a new ring takes the old one's place; no event is lost, and none is in both.
//!
//! ```text
//!   new ring, pinned ──► every handler once more, bound to it, into free slots ──► new state: one rename
//!                        (same text, same numbers of records)                      every table has a new number and slot
//!                                                                    ──► settle: places, wait, active word, wait
//! ```
//!
//! Programs refer to a ring's map in their code, so a ring is exchanged with the programs. It is done as tables are replaced: whoever reads the old
//! active word meets the old programs and the old ring, whoever reads the new one the new ones ([`Change::settle`]). A process that is killed in
//! here leaves the one or the other.
//!
//! The old ring stays as it was, to be dumped, or read to its end where it is a stream, until the buffer is resized again: a record that was written while the ring was exchanged may be
//! later than the first one of the new ring, so they are not joined into one stream. Hooks keep the ring that they began with for as long as
//! they are attached, whatever becomes of it: an attached program cannot be exchanged (`BPF_LINK_UPDATE` is refused).

use super::load::{buffers, compile, globals, retire};
use super::state::{
    AttachmentState, BufferState, CallState, HookState, ObjectState, ProgramState, RowState, State,
    TableState,
};
use super::stay::Change;
use super::{Session, metadata, pins};
use crate::buffer::layout::{Geometry, MAX_BYTES, Mode};
use crate::buffer::ring::RingSpec;
use crate::buffer::{Buffer, check_memory};
use crate::catalog::{Catalog, Resolved, Via};
use crate::error::{Error, Result};
use crate::plan::{Apart, Call, Candidate, Hook, Plan, Slot, Wanted, without_set};
use crate::session::target::Target;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::ast::Probe;
use kestrel_compiler::lang::diag::has_errors;
use kestrel_compiler::lang::parse_events;
use kestrel_kernel::procfs::{self, possible_cpus};
use kestrel_trace::event::EventClass;
use kestrel_trace::info::{BufferInfo, TraceInfo};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

/// What came of resizing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resized {
    /// The buffer.
    pub buffer: String,
    /// Bytes per CPU before.
    pub from: u64,
    /// Bytes per CPU now: what was asked for, rounded up.
    pub to: u64,
    /// Bytes that the old rings hold; they can be dumped until the buffer is resized again.
    pub kept: u64,
    /// Bytes that the rings before those held, from an earlier resize: they are gone.
    pub dropped: u64,
    /// Programs that were made anew.
    pub programs: usize,
}

impl Change {
    /// Gives a buffer another size. What it holds can be dumped until it is resized again.
    ///
    /// # Errors
    /// When there is no such buffer, the size cannot be, a stream's records from before its last resize wait for their reader, there is no memory, or the kernel refuses
    /// something: then the session is as it was before.
    pub fn resize(&mut self, buffer: &str, bytes: u64, catalog: &Catalog) -> Result<Resized> {
        let now = self.buffers()?;
        let place = find(&now, buffer)?;
        let old = &now[place];
        let geometry = shape(old, bytes, self.control.since(place as u32))?;
        let held = |buffer: &Buffer| held(buffer, self.control.since(place as u32));
        let mut resized = Resized {
            buffer: buffer.to_owned(),
            from: u64::from(old.ring().geometry().data()),
            to: u64::from(geometry.data()),
            kept: held(old),
            dropped: old.before().map_or(0, held),
            programs: 0,
        };
        if geometry == old.ring().geometry() {
            resized.dropped = 0;
            return Ok(resized);
        }
        let probes = self.state.probes.each.len();
        if probes > 0 {
            let why = format!(
                "{probes} named probes write to it for as long as they are attached, and the kernel does not let their programs be exchanged; `kestrel probe remove --all --session {}` first, then resize, then add them again",
                self.state.name
            );
            return Err(refused(buffer, why));
        }
        let mut next = self.state.clone();
        let state = &mut next.buffers[place];
        state.before = Some(state.pages);
        state.pages = geometry.pages;
        state.resized = state
            .resized
            .checked_add(1)
            .filter(|n| *n < 1 << 16)
            .ok_or_else(|| {
                refused(
                    buffer,
                    "it was resized 65,535 times; start the session anew".to_owned(),
                )
            })?;
        let ring = self.ring(place, &next.buffers[place], old, catalog)?;
        let made = self.exchange(place, ring, &mut next, catalog);
        match made.and_then(|programs| self.write(next).map(|()| programs)) {
            Ok(programs) => resized.programs = programs,
            Err(error) => {
                self.sweep()?;
                return Err(error);
            }
        }
        self.session.directory.remove(pins::FILLING)?;
        self.settle()?;
        self.sweep()?;
        Ok(resized)
    }

    /// The new ring, with what has been counted so far.
    fn ring(&self, place: usize, state: &BufferState, old: &Buffer, catalog: &Catalog) -> Result<Buffer> {
        let cpus: Vec<u32> = possible_cpus()?.iter().collect();
        check_memory([state.geometry()], &cpus, catalog.host())?;
        let spec = RingSpec {
            number: BufferInfo::numbered(place as u32, state.resized),
            geometry: state.geometry(),
            uuid: self.uuid()?,
            cpus: &cpus,
            now: procfs::monotonic(),
        };
        let made = Buffer::create(&state.name, &spec)?;
        if let Some(before) = old.before() {
            made.ring().inherit(before.ring())?;
        }
        Ok(made)
    }

    /// Makes all handlers anew over the new ring; gives how many programs that took.
    fn exchange(&self, place: usize, ring: Buffer, next: &mut State, catalog: &Catalog) -> Result<usize> {
        let control = self.session.directory.map(pins::CONTROL)?;
        let pin = pins::buffer(&next.buffers[place]);
        self.session.directory.pin(ring.map().as_fd(), &pin)?;
        self.session.directory.pin(control.as_fd(), pins::FILLING)?;
        let mut session = self.session.session()?;
        session.exchange(place, ring);
        let renewed = renumber(next)?;
        let classes: HashMap<u16, &EventClass> = session.classes.iter().map(|c| (c.id.0, c)).collect();
        let mut plan = Plan {
            tables: next.places.clone(),
            hooks: Vec::new(),
            target: Target::All,
            buffers: buffers(next),
            globals: globals(next, next.places.clone()),
            slots: true,
            objects: Vec::new(),
            warnings: Vec::new(),
        };
        let objects = next.objects.clone();
        let known = Known {
            objects: &objects,
            classes: &classes,
        };
        let mut programs = Vec::new();
        for (index, there) in next.hooks.iter_mut().enumerate() {
            let mut made = Vec::new();
            for program in &there.programs {
                for (rows, tables) in parts(program, &renewed) {
                    let hook = again(there, index, program, &rows, &mut plan.globals, &known, catalog)?;
                    let slots = self.session.directory.map(&pins::slots(there.number))?;
                    let (loaded, _) = compile(
                        &session,
                        &plan,
                        &hook,
                        there,
                        &slots,
                        catalog.types().ok().as_ref(),
                    )?;
                    for table in &tables {
                        slots.set_slot(table.slot, loaded.as_fd())?;
                    }
                    made.push(renewed_state(program, &rows, &tables));
                    programs.push(loaded);
                }
            }
            there.programs.extend(made);
        }
        let meta = metadata::create(&described(&session, next)?, next.generation + 1)?;
        metadata::bind(&meta, &programs)?;
        self.session.directory.replace(meta.as_fd(), pins::META)?;
        Ok(programs.len())
    }
}

fn find(buffers: &[Buffer], wanted: &str) -> Result<usize> {
    let found = buffers.iter().position(|buffer| buffer.name() == wanted);
    found.ok_or_else(|| crate::dump::no_buffer(buffers, wanted))
}

fn refused(buffer: &str, why: String) -> Error {
    Error::Resize {
        buffer: buffer.to_owned(),
        why,
    }
}

/// The new shape, if it can be.
fn shape(old: &Buffer, bytes: u64, since: u64) -> Result<Geometry> {
    let name = old.name();
    if bytes == 0 || bytes > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(refused(
            name,
            format!(
                "a ring holds 1 byte to {most} MiB per CPU, not {bytes} bytes: the verifier follows offsets in it no further"
            ),
        ));
    }
    let ring = old.ring();
    let Geometry { mode, events, .. } = ring.geometry();
    let next = Geometry::new(mode, bytes, events);
    // What is before the ring that is now will be gone: a stream's reader must be through with it.
    let unread = |before: &Buffer| mode == Mode::Stream && next != ring.geometry() && waits(before, since);
    if old.before().is_some_and(unread) {
        let why = match name {
            crate::agent::BUFFER => {
                "messages from before its last resize wait in it; let `kestrel agent` act on them first"
                    .to_owned()
            }
            _ => format!(
                "records from before its last resize wait for their reader; let `kestrel agent --log DIR` take them first, or give them up with `kestrel buffer reset {name}`"
            ),
        };
        return Err(refused(name, why));
    }
    Ok(next)
}

/// Whether a stream holds records that count and that nobody has read.
fn waits(part: &Buffer, since: u64) -> bool {
    let ring = part.ring();
    let waits = |cpu: u32| ring.is_waiting(cpu) && ring.status(cpu, since).newest.is_some();
    ring.cpus().any(waits)
}

/// Bytes of records that a buffer's own rings hold and that count.
fn held(buffer: &Buffer, since: u64) -> u64 {
    let ring = buffer.ring();
    let of = |cpu| Some(ring.status(cpu, since)).filter(|status| status.newest.is_some());
    ring.cpus().filter_map(of).map(|status| status.held).sum()
}

/// A table's next number and slot.
#[derive(Clone, Copy, Debug)]
struct Renewed {
    old: u32,
    number: u32,
    slot: u32,
}

/// Gives every table a new number and a slot; the old ones are on their way out.
fn renumber(next: &mut State) -> Result<Vec<Renewed>> {
    let mut renewed = Vec::new();
    let mut taken = Vec::new();
    let probes = next.probes.table;
    let changed = |table: &TableState| Some(table.number) != probes;
    for index in 0..next.tables.len() {
        if !changed(&next.tables[index]) {
            continue;
        }
        let slot = next.free_slot(&taken).ok_or_else(|| Error::TableInUse {
            action: "reload",
            table: next.tables[index].name.clone(),
            why: "all handlers are made anew in free slots, and a session has 512 in all: unload some tables first"
                .to_owned(),
        })?;
        taken.push(slot);
        renewed.push(Renewed {
            old: next.tables[index].number,
            number: next.next_table,
            slot,
        });
        next.next_table += 1;
    }
    let tables = next.tables.iter_mut().filter(|table| changed(table));
    for (table, renewed) in tables.zip(&renewed) {
        next.retiring.push(retire(table));
        table.number = renewed.number;
        table.slot = Some(renewed.slot);
    }
    Ok(renewed)
}

/// The rows of a program that serve the same tables, with these; rows that serve none are left out.
fn parts(program: &ProgramState, renewed: &[Renewed]) -> Vec<(Vec<usize>, Vec<Renewed>)> {
    let mut parts: Vec<(Vec<usize>, Vec<Renewed>)> = Vec::new();
    for table in renewed {
        let serves = |row: &RowState| row.tables.contains(&table.old);
        let rows: Vec<usize> = (0..program.rows.len())
            .filter(|row| serves(&program.rows[*row]))
            .collect();
        match parts.iter_mut().find(|(known, _)| *known == rows) {
            _ if rows.is_empty() => {}
            Some((_, tables)) => tables.push(*table),
            None => parts.push((rows, vec![*table])),
        }
    }
    parts
}

/// What the state says about a program of a hook, made anew for some of its rows.
fn renewed_state(program: &ProgramState, rows: &[usize], tables: &[Renewed]) -> ProgramState {
    let mut next = program.clone();
    next.slot = tables.first().map(|table| table.slot);
    for (index, row) in next.rows.iter_mut().enumerate() {
        let serves = |table: &&Renewed| rows.contains(&index) && row.tables.contains(&table.old);
        row.tables = tables.iter().filter(serves).map(|table| table.number).collect();
    }
    next
}

/// What the session has of what handlers made anew refer to.
struct Known<'a> {
    objects: &'a [ObjectState],
    /// Kinds of record by number.
    classes: &'a HashMap<u16, &'a EventClass>,
}

/// A program of a hook as a plan for a slot of the hook: all of its rows, so that its records have the same numbers; of these, `live` are met.
fn again(
    there: &HookState,
    index: usize,
    program: &ProgramState,
    live: &[usize],
    globals: &mut Globals,
    known: &Known<'_>,
    catalog: &Catalog,
) -> Result<Hook> {
    let event = there.events.first().map_or("", |event| &event.name);
    let texts: Vec<(Arc<str>, Probe)> = program.rows.iter().map(parse).collect::<Result<_>>()?;
    let path_of = |call: &CallState| {
        let object = known.objects.iter().find(|object| object.number == call.object);
        object.map_or_else(String::new, |object| object.path.clone())
    };
    let candidates: Vec<Candidate<'_>> = texts
        .iter()
        .zip(&program.rows)
        .map(|((source, probe), row)| Candidate {
            probe,
            object: row
                .call
                .as_ref()
                .map(|call| Wanted::Known(path_of(call), call.program.clone())),
            source: source.clone(),
            tables: row.tables.clone(),
            required: true,
        })
        .collect();
    let mut calls: Vec<Call> = Vec::new();
    for call in program.rows.iter().filter_map(|row| row.call.as_ref()) {
        calls.push(Call {
            object: path_of(call),
            program: call.program.clone(),
            entry: call.entry,
        });
    }
    let mut why = "the running session sees it in a way that this kernel no longer offers".to_owned();
    for mut resolved in resolved(there, catalog)? {
        resolved
            .ways
            .retain(|way| there.attached == AttachmentState::from(&way.attachment));
        if resolved.ways.is_empty() {
            continue;
        }
        let mut checked_globals = globals.clone();
        let checked = without_set(resolved.clone(), &candidates, &mut checked_globals);
        let mut hook = match checked.map(|checked| checked.hook) {
            Ok(Some(hook)) => hook,
            Ok(None) => continue,
            Err(refused) => {
                checked_globals = globals.clone();
                let apart = one_by_one(
                    there,
                    program,
                    &resolved,
                    &candidates,
                    &mut checked_globals,
                    catalog,
                )?;
                let Some(hook) = apart else {
                    if let Some(diagnostic) = refused.why.first() {
                        why.clone_from(&diagnostic.message);
                    }
                    continue;
                };
                hook
            }
        };
        hook.first = program.first;
        hook.known_calls.clone_from(&calls);
        let all = |row: usize| program.rows[row].events.is_empty();
        hook.slot = Some(Slot {
            hook: index,
            sets: (0..program.rows.len())
                .map(|row| match live.contains(&row) {
                    true => program.rows[row].events.clone(),
                    false => vec![Slot::NO_EVENT],
                })
                .collect(),
            events: Vec::new(),
            only: match live {
                &[row] if all(row) => Some(row),
                _ => None,
            },
        });
        if !program.events.is_empty() {
            hook.keep_only(&program.events);
        }
        let same = |class: &EventClass| {
            let known = known.classes.get(&class.id.0);
            known.is_some_and(|k| k.name == class.name && k.kind == class.kind && k.layout == class.layout)
        };
        let ways = std::mem::take(&mut hook.ways);
        hook.ways = ways
            .into_iter()
            .filter(|way| hook.classes(way).iter().all(same))
            .collect();
        if hook.ways.is_empty() || checked_globals.maps.len() != globals.maps.len() {
            why = "its records would look different".to_owned();
            continue;
        }
        *globals = checked_globals;
        return Ok(hook);
    }
    Err(Error::Compile {
        event: event.to_owned(),
        why: format!("{why}; start the session anew"),
    })
}

/// The same where handlers ask for what only their own events have: each is checked for the first of them, as all of a row's events are read
/// in one way.
fn one_by_one(
    there: &HookState,
    program: &ProgramState,
    set: &Resolved,
    candidates: &[Candidate<'_>],
    globals: &mut Globals,
    catalog: &Catalog,
) -> Result<Option<Hook>> {
    let mut apart = Apart::new(set);
    for (candidate, row) in candidates.iter().zip(&program.rows) {
        let mut hook = apart.of_set(candidate, globals);
        let event = row
            .events
            .first()
            .and_then(|place| there.events.get(usize::from(*place)));
        if let (None, Some(event)) = (&hook, event) {
            let member = catalog.member(&there.kind, &event.name)?;
            let mut ones = member.into_iter().chain(named(there, &event.name, catalog)?);
            hook = ones.find_map(|one| {
                let mut trial = globals.clone();
                let hook = apart.of_one(one, candidate, &mut trial)?;
                *globals = trial;
                Some(hook)
            });
        }
        let Some(hook) = hook else {
            return Ok(None);
        };
        apart.add(hook);
    }
    Ok(Some(apart.into_hook(false)))
}

/// A handler's text.
fn parse(row: &RowState) -> Result<(Arc<str>, Probe)> {
    let (probe, diagnostics) = parse_events(&row.source);
    if has_errors(&diagnostics) {
        return Err(Error::Program {
            source_text: row.source.clone(),
            diagnostics,
        });
    }
    Ok((row.source.as_str().into(), probe))
}

/// A hook's events as they can be attached to, each way to name them in turn.
fn resolved(there: &HookState, catalog: &Catalog) -> Result<Vec<Resolved>> {
    let names: Vec<String> = there.events.iter().map(|event| event.name.clone()).collect();
    let mut all = Vec::new();
    if let [name] = names.as_slice() {
        all = named(there, name, catalog)?;
    }
    all.extend(catalog.set(&there.kind, &names, Via::Auto)?);
    Ok(all)
}

/// One of a hook's events.
fn named(there: &HookState, name: &str, catalog: &Catalog) -> Result<Vec<Resolved>> {
    let (probe, _) = parse_events(name);
    let mut all = Vec::new();
    for via in [Via::Auto, Via::Classic] {
        for spec in &probe.events {
            let found = catalog.resolve(spec, via)?;
            all.extend(found.into_iter().filter(|resolved| {
                resolved.kind == there.kind
                    && matches!(resolved.instances.as_slice(), [one] if one.name == name)
            }));
        }
    }
    Ok(all)
}

/// The session's trace with the buffers as they will be.
fn described(session: &Session, next: &State) -> Result<TraceInfo> {
    let mut info = session.info.clone();
    info.events.clone_from(&session.classes);
    info.buffers.clear();
    for (place, buffer) in (0..).zip(&next.buffers) {
        for part in buffer.earlier().iter().chain([buffer]) {
            let number = BufferInfo::numbered(place, part.resized);
            info.buffers.push(part.geometry().info(number, &part.name));
        }
    }
    Ok(info)
}
