//! Buffers of a session that runs: made, removed, and which one records go to that name none. How one gets another size is [`crate::session::resize`]'s.
//!
//! A buffer's number is its place in the state, and packets and programs refer to it by that. So a place is never taken out: where a buffer was removed, the smallest
//! ring stands under a name that no text can have, until a new buffer takes the place.

use crate::session::pinned::Change;
use crate::session::state::BufferState;
use crate::session::transaction::Staged;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Parameter;
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::check_memory;
use kestrel_hook::buffer::layout::{Geometry, MAX_BYTES, Mode};
use kestrel_hook::buffer::name::{MESSAGES, numbers};
use kestrel_hook::buffer::reader::RingSpec;
use kestrel_hook::hook::control::MAX_BUFFERS;
use kestrel_hook::hook::owner::Owner;
use kestrel_kernel::procfs::{self, possible_cpus};
use kestrel_trace::info::BufferInfo;

/// Longest name of a buffer.
const LONGEST: usize = 48;

impl Change {
    /// Makes a buffer, for one process if there is an `owner`; gives its bytes per CPU. Handlers that are loaded from now on, or are there, can send records to it.
    ///
    /// # Errors
    /// When there is one of this name, the session has as many as it can, there is no memory, or the kernel refuses something: then the session is as it
    /// was before.
    pub fn create_buffer(
        &mut self,
        name: &str,
        (bytes, mode): (u64, Mode),
        process: Option<Owner>,
        catalog: &Catalog,
    ) -> Result<u64> {
        let refused = |why: String| refused("create", name, why);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !name.starts_with(first) || !name.chars().all(fits) || name.len() > LONGEST {
            return Err(refused(
                "a name is letters, digits and `_`, at most 48 of them, and begins with no digit".to_owned(),
            ));
        }
        if name == MESSAGES || self.state.buffers.iter().any(|known| known.name == name) {
            return Err(refused("the session has one of this name".to_owned()));
        }
        if bytes == 0 || bytes > MAX_BYTES {
            return Err(refused(format!(
                "a ring holds 1 byte to {} MiB per CPU, not {bytes} bytes",
                MAX_BYTES >> 20
            )));
        }
        if let Some(owner) = &process {
            let parameters: Vec<Parameter> = self.state.parameters.iter().map(|p| p.parameter()).collect();
            owner.check(&parameters).map_err(&refused)?;
        }
        // Programs and packets refer to buffers by place, so places are never moved, and those of removed ones used again.
        let free = self.state.buffers.iter().position(BufferState::is_removed);
        let place = free.unwrap_or(self.state.buffers.len());
        if place >= MAX_BUFFERS as usize {
            return Err(refused(format!("a session has at most {MAX_BUFFERS}")));
        }
        let events = self.state.buffers.iter().map(|known| known.events).max();
        let geometry = Geometry::new(mode, bytes, events.unwrap_or(1));
        self.put_buffer(place, name.to_owned(), geometry, process, catalog)?;
        // The place's former buffer may have been frozen or reset.
        self.control.freeze(place as u32, false);
        self.control.reset(place as u32, 0);
        Ok(u64::from(geometry.data()))
    }

    /// Removes a buffer with all that it holds.
    ///
    /// # Errors
    /// When there is none, it is the session's first or the agent's, a handler names it, or records go to it.
    pub fn remove_buffer(&mut self, name: &str, catalog: &Catalog) -> Result<()> {
        let buffers = self.buffers()?;
        let place = numbers(&buffers, &[name.to_owned()])?;
        let place = place.first().copied().unwrap_or_default();
        let refused = |why: String| refused("remove", name, why);
        if place == 0 {
            return Err(refused(
                "records that name no buffer go to a session's first one".to_owned(),
            ));
        }
        if possible_cpus()?
            .iter()
            .any(|cpu| self.control.current(cpu) == place)
        {
            let first = &self.state.buffers[0].name;
            return Err(refused(format!(
                "records go to it; `kestrel buffer use {first}` sends them to another one first"
            )));
        }
        // A handler's code writes into the ring by its map, which would be another buffer's.
        let rows = self
            .state
            .hooks
            .iter()
            .flat_map(|hook| &hook.programs)
            .flat_map(|program| &program.rows);
        let users: Vec<u32> = rows
            .filter(|row| row.named_buffers.iter().any(|named| named == name))
            .flat_map(|row| row.tables.clone())
            .collect();
        let tables = self
            .state
            .tables
            .iter()
            .filter(|table| users.contains(&table.number));
        let tables: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
        if !tables.is_empty() {
            return Err(refused(format!(
                "handlers of {} name it; `kestrel table unload` them first",
                tables.join(", ")
            )));
        }
        let events = self.state.buffers[place as usize].events;
        // The place must be kept, because the buffers behind it would get other numbers: the smallest ring takes it.
        let least = Geometry::new(Mode::Overwrite, 1, events);
        self.put_buffer(
            place as usize,
            BufferState::name_of_removed(place),
            least,
            None,
            catalog,
        )
    }

    /// Sends the records of all CPUs that name no buffer to this one, until a handler or another command sends them elsewhere.
    ///
    /// # Errors
    /// When there is none of this name, or it is the agent's.
    pub fn use_buffer(&self, name: &str) -> Result<()> {
        let buffers = self.buffers()?;
        for number in numbers(&buffers, &[name.to_owned()])? {
            for cpu in possible_cpus()?.iter() {
                self.control.set_current(cpu, number);
            }
        }
        Ok(())
    }

    /// Puts a new ring of another name in a place.
    fn put_buffer(
        &mut self,
        place: usize,
        name: String,
        geometry: Geometry,
        process: Option<Owner>,
        catalog: &Catalog,
    ) -> Result<()> {
        let mut next = self.state.clone();
        // Packets tell a place's buffers apart by how often it was given, which has 16 bits.
        let times = next
            .buffers
            .get(place)
            .map_or(Some(0), |old| old.resized.checked_add(1));
        let times = times.filter(|times| *times < 1 << 16).ok_or_else(|| {
            refused(
                "create",
                &name,
                "its place was given too often; start the session anew".to_owned(),
            )
        })?;
        let state = BufferState {
            name: name.clone(),
            overwrite: geometry.mode == Mode::Overwrite,
            pages: geometry.pages,
            events: geometry.events,
            process,
            resized: times,
            ..BufferState::default()
        };
        match next.buffers.get_mut(place) {
            Some(old) => *old = state,
            None => next.buffers.push(state),
        }
        let cpus: Vec<u32> = possible_cpus()?.iter().collect();
        check_memory([geometry], &cpus, catalog.host())?;
        let spec = RingSpec {
            number: BufferInfo::numbered(place as u32, times),
            geometry,
            uuid: self.uuid()?,
            cpus: &cpus,
            now: procfs::monotonic(),
        };
        let ring = Buffer::create(&name, &spec)?;
        self.put_rings(vec![(place, ring)], next, catalog).map(drop)
    }

    /// Makes all handlers anew over these rings and the state that has them the session's; gives how many programs that took.
    pub(in crate::session) fn put_rings(
        &mut self,
        rings: Vec<(usize, Buffer)>,
        next: crate::session::state::State,
        catalog: &Catalog,
    ) -> Result<usize> {
        self.make_anew(rings, &[], next, catalog)
    }

    /// Makes handlers anew where hooks of these numbers are made anew at the tracepoint.
    pub(in crate::session) fn make_anew(
        &mut self,
        rings: Vec<(usize, Buffer)>,
        moving: &[u32],
        mut next: crate::session::state::State,
        catalog: &Catalog,
    ) -> Result<usize> {
        let programs = self.transact(|change| {
            let (programs, description) = change.exchange(rings, &mut next, moving, catalog)?;
            let staged = Staged {
                description: Some(description),
                ..Staged::of(next)
            };
            Ok((staged, programs))
        })?;
        self.sweep()?;
        Ok(programs)
    }
}

fn refused(action: &'static str, buffer: &str, why: String) -> Error {
    Error::Buffer {
        action,
        buffer: buffer.to_owned(),
        why,
    }
}
