//! Starting a persistent session: everything is made unpinned, then pinned in a hidden directory, which one rename gives its name.

use crate::plan::{BufferPlan, Plan, room_to_grow};
use crate::session::attached::Session;
use crate::session::hook_state::hook_state;
use crate::session::pinned::PinnedSession;
use crate::session::pins::{self, Directory};
use crate::session::state::State;
use crate::session::store::Store;
use crate::session::{Fallback, Skipped};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::layout::Geometry;
use kestrel_hook::hook::control::Table;
use kestrel_kernel::procfs::ClockPair;
use std::os::fd::AsFd;

/// Origin of a session, as `status` shows it later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The command, as typed.
    pub command: &'a str,
    /// The table file, if there is one.
    pub file: Option<&'a str>,
}

/// A session that was started.
#[derive(Debug)]
pub struct Started {
    /// The session that was started.
    pub session: PinnedSession,
    /// Events that are not seen in the best way planned.
    pub fallbacks: Vec<Fallback>,
    /// Events that this kernel does not let be attached, and only a pattern named.
    pub skipped: Vec<Skipped>,
    /// Number of programs attached.
    pub programs: usize,
}

impl Store {
    /// Starts a session under a name and returns; it goes on without this process, with `table` (or the plan's first) active.
    ///
    /// A process that is killed in here leaves nothing that goes on for longer than the next command of anybody.
    ///
    /// # Errors
    /// [`Error::SessionExists`], and as [`Session::start`].
    pub fn start(
        &self,
        name: &str,
        mut plan: Plan,
        catalog: &Catalog,
        table: Option<&str>,
        origin: Origin<'_>,
    ) -> Result<Started> {
        let active = match table {
            None => 1,
            Some(wanted) => number_of(&plan, wanted)?,
        };
        if !plan.slots {
            make_room(&mut plan);
        }
        plan.give_messages_a_buffer();
        for buffer in &mut plan.buffers {
            buffer.bell = BufferPlan::bell_of(Bell::QuarterFull, &buffer.name, buffer.geometry.mode);
        }
        let (directory, lock) = self.begin(name)?;
        let made = Session::make(&plan, catalog, origin.command, name)
            .map_err(|error| crate::session::kernel_error::name_what_is_missing(error, catalog.host()))
            .and_then(|session| {
                let mut state = describe(&session, name, &plan, origin);
                state.objects = session.resources.objects.pin(&directory)?;
                session.pin(&state, &directory)?;
                session.resources.control.switch(Table::known(active));
                Ok(session)
            });
        let mut session = match made {
            Ok(session) => session,
            Err(error) => {
                // The unfinished session is detached by removing its pins.
                directory.destroy()?;
                lock.remove();
                return Err(error);
            }
        };
        let place = self.finish(directory, name)?;
        session.hooks.iter_mut().for_each(|hook| hook.links.persist());
        Ok(Started {
            session: PinnedSession::open(&self.host, place, name)?,
            programs: session.programs(),
            fallbacks: session.fallbacks,
            skipped: session.skipped,
        })
    }
}

fn number_of(plan: &Plan, table: &str) -> Result<u32> {
    let found = plan.tables.iter().position(|known| known == table);
    found
        .map(|index| index as u32 + 1)
        .ok_or_else(|| Error::NoSuchTable {
            wanted: table.to_owned(),
            place: "the plan".to_owned(),
            known: plan.tables.clone(),
        })
}

/// Lets tables be loaded later into a plan that was not made for that: the buffers get room for kinds of record to come.
fn make_room(plan: &mut Plan) {
    plan.slots = true;
    (plan.globals.messages, plan.globals.persistent) = (true, true);
    for buffer in &mut plan.buffers {
        let Geometry { mode, pages, events } = buffer.geometry;
        let events = room_to_grow(events);
        buffer.geometry = Geometry { mode, pages, events };
    }
}

fn describe(session: &Session, name: &str, plan: &Plan, origin: Origin<'_>) -> State {
    let now = ClockPair::now().realtime;
    let mut state = State::of_plan(name, plan, origin.file, now);
    state.uuid = session.info.uuid.to_string();
    state.command = origin.command.to_owned();
    for attached in &session.hooks {
        let hook = &plan.hooks[attached.hook];
        let next = hook_state(state.next_hook, hook, attached, &session.resources.objects);
        state.hooks.push(next);
        state.next_hook += 1;
    }
    state.trackers = session.trackers.iter().map(|f| f.links.each().len() as u32).sum();
    state
}

impl Session {
    /// Pins all of it into a directory that has no name of a session yet: links come last, since from their pins on the kernel keeps the programs attached.
    fn pin(&self, state: &State, to: &Directory) -> Result<()> {
        to.pin(self.resources.control.map().as_fd(), pins::CONTROL)?;
        to.pin(state.to_map()?.as_fd(), pins::STATE)?;
        to.pin(self.resources.thread_names.as_fd(), pins::NAMES)?;
        if let Some(description) = &self.metadata {
            description.pin(to)?;
        }
        let resources = &self.resources;
        for (doorbell, name) in [
            (&resources.doorbell, pins::BELL),
            (&resources.message_bell, pins::MESSAGE_BELL),
        ] {
            // Only a buffer of records or messages has a reader to wake.
            if let Some(doorbell) = doorbell {
                to.pin(doorbell.fd(), name)?;
            }
        }
        if let Some(map) = &self.resources.process_filter {
            to.pin(map.as_fd(), pins::TARGETS)?;
        }
        for (buffer, state) in self.resources.buffers.iter().zip(&state.buffers) {
            to.pin(buffer.map().as_fd(), &pins::buffer(state))?;
        }
        if let Some(map) = self.resources.maps.state() {
            to.pin(map.as_fd(), pins::MAPS)?;
        }
        for (ty, map) in self.resources.maps.all() {
            to.pin(map.as_fd(), &pins::map(&ty.name))?;
            if let Some(stacks) = self.resources.maps.stacks(&ty.name) {
                to.pin(stacks.as_fd(), &pins::stacks(&ty.name))?;
            }
        }
        for (hook, attached) in state.hooks.iter().zip(&self.hooks) {
            attached.pin(hook.number, to)?;
        }
        let links = self.trackers.iter().flat_map(|f| f.links.each());
        for (number, link) in (0..).zip(links) {
            to.pin(link.as_fd(), &pins::tracker(number))?;
        }
        Ok(())
    }
}
