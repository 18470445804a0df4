//! Resizing a buffer of a session that runs: a new ring takes the old one's place; no event is lost, and none is in both.
//!
//! ```text
//!   new ring, pinned ──► every handler once more, bound to it, into free slots ──► new state: one rename
//!                        (same text, same numbers of records)                      every table has a new number and slot
//!                                                                    ──► settle: places, wait, active word, wait
//! ```
//!
//! Programs refer to a ring's map in their code, so a ring is exchanged with the programs. It is done as tables are replaced: a hook that reads the old
//! active word calls the old programs with the old ring, one that reads the new word the new ones (`Change::settle`). Named probes work beside the
//! tables: each goes over by its own word. A process that is killed in here leaves the one or the other.
//!
//! The old ring is kept as it was, to be dumped, or read to its end where it is a stream, until the buffer is resized again: a record that was written while the ring was exchanged may be
//! later than the first one of the new ring, so they are not joined into one stream. Hooks keep the ring that they began with for as long as
//! they are attached, whatever becomes of it: an attached program cannot be exchanged (`BPF_LINK_UPDATE` is refused).

use crate::session::attached::Session;
use crate::session::metadata::Description;
use crate::session::pinned::Change;
use crate::session::pins;
use crate::session::recompile::Recompile;
use crate::session::state::{BufferState, HandlerState, ProgramState, State, TableState};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::layout::{Geometry, MAX_BYTES, Mode};
use kestrel_hook::buffer::reader::RingSpec;
use kestrel_hook::buffer::{Buffer, check_memory};
use kestrel_kernel::procfs::{self, possible_cpus};
use kestrel_trace::info::{BufferInfo, TraceInfo};
use serde::Serialize;
use std::os::fd::AsFd;

/// Result of resizing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resized {
    /// The buffer's name.
    pub buffer: String,
    /// Bytes per CPU before.
    pub from: u64,
    /// Bytes per CPU now: what was asked for, rounded up.
    pub to: u64,
    /// Bytes that the old rings hold; they can be dumped until the buffer is resized again.
    #[serde(rename = "kept_bytes")]
    pub kept: u64,
    /// Bytes that the rings before those held, from an earlier resize: they are gone.
    #[serde(rename = "removed_bytes")]
    pub removed: u64,
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
            removed: old.before().map_or(0, held),
            programs: 0,
        };
        if geometry == old.ring().geometry() {
            resized.removed = 0;
            return Ok(resized);
        }
        resized.programs = self.reshape(&now, &[(place, geometry)], catalog)?;
        Ok(resized)
    }

    /// Gives all buffers room for the counts of so many kinds of record, as a resize gives them another size: what they hold can be dumped until
    /// they are resized again.
    ///
    /// # Errors
    /// As [`Change::resize`].
    pub(in crate::session) fn make_room(&mut self, events: u32, catalog: &Catalog) -> Result<()> {
        let now = self.buffers()?;
        let mut shapes = Vec::new();
        for (place, old) in now.iter().enumerate() {
            let geometry = Geometry {
                events,
                ..old.ring().geometry()
            };
            check_read(old, geometry, self.control.since(place as u32))?;
            shapes.push((place, geometry));
        }
        self.reshape(&now, &shapes, catalog).map(drop)
    }

    /// Gives buffers other shapes, all at once; gives how many programs were made anew.
    fn reshape(&mut self, now: &[Buffer], shapes: &[(usize, Geometry)], catalog: &Catalog) -> Result<usize> {
        let mut next = self.state.clone();
        let mut rings = Vec::new();
        for &(place, geometry) in shapes {
            let state = &mut next.buffers[place];
            state.before = Some(state.pages);
            state.pages = geometry.pages;
            state.events_before = (state.events != geometry.events).then_some(state.events);
            state.events = geometry.events;
            state.resized = state
                .resized
                .checked_add(1)
                .filter(|n| *n < 1 << 16)
                .ok_or_else(|| {
                    refused(
                        &state.name,
                        "it was resized 65,535 times; start the session anew".to_owned(),
                    )
                })?;
            rings.push((
                place,
                self.ring(place, &next.buffers[place], &now[place], catalog)?,
            ));
        }
        self.put_rings(rings, next, catalog)
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

    /// Makes all handlers anew over new rings, those of hooks that are `moving` for another hook at the tracepoint; gives how many programs that took.
    pub(in crate::session) fn exchange(
        &self,
        rings: Vec<(usize, Buffer)>,
        next: &mut State,
        moving: &[u32],
        catalog: &Catalog,
    ) -> Result<(usize, Description)> {
        self.begin_filling()?;
        let mut session = self.session.session()?;
        for (place, ring) in rings {
            let pin = pins::buffer(&next.buffers[place]);
            self.session.directory.pin(ring.map().as_fd(), &pin)?;
            session.resources.set_buffer(place, ring);
        }
        let renewed = renumber(next)?;
        let mut remake = Recompile::new(&session, next, &self.session.directory, catalog);
        for index in 0..next.hooks.len() {
            let there = &next.hooks[index];
            // A hook that serves another one is made with it.
            if there.probe.is_some() || there.companion {
                continue;
            }
            let is_moving = moving.contains(&there.number);
            let (there, index, programs) = match is_moving {
                false => (there.clone(), index, there.programs.clone()),
                true => {
                    let numbers = |old: &[u32]| {
                        let serves = |table: &&Renewed| old.contains(&table.old);
                        renewed.iter().filter(serves).map(|table| table.number).collect()
                    };
                    let moved = remake.at_tracepoint(there, next.next_hook, &numbers)?;
                    next.next_hook += 1;
                    let later = there.programs.iter().filter(|program| program.slot.is_some());
                    let later = later.cloned().collect();
                    next.hooks.push(moved.clone());
                    (moved, next.hooks.len() - 1, later)
                }
            };
            let there = &there;
            let mut made = Vec::new();
            for program in &programs {
                for (rows, tables) in parts(program, &renewed) {
                    let again = remake.recompile_program(there, index, program, &rows)?;
                    let state = renewed_state(program, &rows, &tables);
                    let slots: Vec<u32> = tables.iter().map(|table| table.slot).collect();
                    remake.put(&again.hook, there, &slots)?;
                    for companion in again.companions {
                        made.push(remake.companion(companion, &again.hook, &state, &slots, &next.hooks)?);
                    }
                    made.push((index, state));
                }
            }
            for (hook, program) in made {
                next.hooks[hook].programs.push(program);
            }
        }
        for relayed in &next.hooks {
            for table in &next.tables {
                remake.recompile_relay(&next.hooks, relayed, table)?;
            }
        }
        let gone = self.gone(catalog.host(), |flags| flags.gone);
        let gone = gone.into_iter().collect();
        self.renew_probes(&mut remake, &gone, next)?;
        let programs = remake.into_programs();
        let meta = Description::create(&described(&session, next)?, next.generation + 1)?;
        meta.bind(&programs)?;
        Ok((programs.len(), meta))
    }
}

fn find(buffers: &[Buffer], wanted: &str) -> Result<usize> {
    let found = buffers.iter().position(|buffer| buffer.name() == wanted);
    found.ok_or_else(|| kestrel_hook::buffer::name::no_buffer(buffers, wanted))
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
    let Geometry { mode, events, .. } = old.ring().geometry();
    let next = Geometry::new(mode, bytes, events);
    check_read(old, next, since)?;
    Ok(next)
}

/// Refuses another shape for a stream whose reader is not through with what it was before its last one.
fn check_read(old: &Buffer, next: Geometry, since: u64) -> Result<()> {
    let (name, mode, ring) = (old.name(), next.mode, old.ring());
    // The ring before the current one will be gone: a stream's reader must be through with it.
    let unread = |before: &Buffer| mode == Mode::Stream && next != ring.geometry() && waits(before, since);
    if old.before().is_some_and(unread) {
        let why = match name {
            kestrel_hook::buffer::name::MESSAGES => {
                "messages from before its last resize wait in it; let `kestrel agent` act on them first"
                    .to_owned()
            }
            _ => format!(
                "records from before its last resize wait for their reader; let `kestrel agent --log DIR` take them first, or give them up with `kestrel buffer reset {name}`"
            ),
        };
        return Err(refused(name, why));
    }
    Ok(())
}

/// Whether a stream holds records that count and were not read.
fn waits(part: &Buffer, since: u64) -> bool {
    let ring = part.ring();
    let waits = |cpu: u32| ring.has_unread(cpu) && ring.status(cpu, since).newest.is_some();
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
        next.retiring.push(table.retiring());
        table.number = renewed.number;
        table.slot = Some(renewed.slot);
    }
    Ok(renewed)
}

/// The rows of a program that serve the same tables, with these; rows that serve none are left out.
fn parts(program: &ProgramState, renewed: &[Renewed]) -> Vec<(Vec<usize>, Vec<Renewed>)> {
    let mut parts: Vec<(Vec<usize>, Vec<Renewed>)> = Vec::new();
    for table in renewed {
        let serves = |row: &HandlerState| row.tables.contains(&table.old);
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

/// State of a program of a hook, made anew for some of its rows.
fn renewed_state(program: &ProgramState, rows: &[usize], tables: &[Renewed]) -> ProgramState {
    let mut next = program.clone();
    next.slot = tables.first().map(|table| table.slot);
    for (index, row) in next.rows.iter_mut().enumerate() {
        let serves = |table: &&Renewed| rows.contains(&index) && row.tables.contains(&table.old);
        row.tables = tables.iter().filter(serves).map(|table| table.number).collect();
    }
    next
}

/// The session's trace with the buffers as they will be.
fn described(session: &Session, next: &State) -> Result<TraceInfo> {
    let mut info = session.info.clone();
    info.events.clone_from(&session.classes);
    info.buffers = next.rings();
    Ok(info)
}
