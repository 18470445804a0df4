//! The handlers of a persistent session: which there are, what they have counted, what their maps and parameters hold; changing the latter and
//! starting anew. What a handler does is decided when its table is loaded, not here.

mod group;

use super::missed::Misses;
use super::owner::Owner;
use super::pinned::{Change, PinnedSession};
use super::state::{Baseline, HandlerState, ParameterState, State};
use super::transaction::Staged;
use group::{Group, Part, choose, groups};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::buffer::name::MESSAGES;
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::procfs::ClockPair;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::aggregate::read::Snapshot;
use serde::Serialize;
use std::collections::BTreeSet;

/// A handler: one text that stands in one or more tables, for one or more events.
#[derive(Clone, Debug, PartialEq)]
pub struct Handler {
    /// The name, `TABLE/EVENT`: the first of its tables and of its events. An event has at most one handler in a table.
    pub name: String,
    /// The text: events, predicate, block.
    pub source: String,
    /// The tables that it stands in.
    pub tables: Vec<String>,
    /// Whether one of these is active.
    pub active: bool,
    /// The handler's events, with their counts.
    pub events: Vec<EventCounts>,
    /// Kinds of record that it writes; without any it only counts, or acts.
    pub records: u16,
    /// Whether all of these are messages for an agent (`notify`, `exec`).
    pub messages: bool,
    /// Whether some of the session's buffers do not count what they keep (streams): then more may have been kept than is counted.
    pub uncounted: bool,
    /// Events that the programs it is a part of did not see because they were running already on that CPU.
    pub missed: u64,
    /// When its counts were last reset: ns since 1970.
    pub reset: Option<u64>,
    /// The maps that it uses; of one that is kept by event (a bare `count()`), its own events.
    pub maps: Vec<Snapshot>,
    /// The parameters that it uses.
    pub parameters: Vec<ParameterValue>,
    /// The programs of compiled objects that handle its events.
    pub programs: Vec<ObjectProgram>,
}

/// A program of a compiled object that handles events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectProgram {
    /// The object's number in the session.
    pub object: u32,
    /// The path of its file when it was loaded.
    pub path: String,
    /// The program's name.
    pub program: String,
}

/// Counts of the records that a handler wrote for one event, since its last reset or since its table was loaded. A handler that came with a
/// table loaded later shares its counts with another one that writes records of the same shape if the buffers had no room for a number of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventCounts {
    /// The event, as people name it.
    pub event: String,
    /// Records kept, in all buffers that count them (those that overwrite); of a handler that writes messages alone, messages sent.
    pub kept: u64,
    /// Records lost: a ring was full, or frozen.
    pub lost: u64,
}

/// A parameter of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValue {
    /// The parameter's name.
    pub name: String,
    /// The value now, as people read it.
    pub value: String,
}

/// Result of setting a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The handler's name.
    pub handler: String,
    /// Name of the parameter.
    pub parameter: String,
    /// The value before the change.
    pub old: String,
    /// The value from the next event on.
    pub new: String,
    /// Names of other handlers that use it.
    pub others: Vec<String>,
}

/// Result of resetting a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetResult {
    /// The handler's name.
    pub handler: String,
    /// The maps as people write them, each with the names of other handlers for which it is empty now, too.
    pub maps: Vec<(String, Vec<String>)>,
}

impl Handler {
    /// Records kept, for all of its events.
    pub fn kept(&self) -> u64 {
        self.events.iter().map(|event| event.kept).sum()
    }

    /// Records lost, for all of its events.
    pub fn lost(&self) -> u64 {
        self.events.iter().map(|event| event.lost).sum()
    }
}

impl PinnedSession {
    /// The handlers: those of its first table first.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn handlers(&self) -> Result<Vec<Handler>> {
        let now = HandlersStatus::of(self)?;
        let groups = groups(&self.state);
        Ok(groups.iter().map(|group| now.handler(group)).collect())
    }

    /// The handler meant: by its name with any of its tables and events, by an event alone, by a pattern, or by how one of these begins.
    fn find(&self, wanted: &str) -> Result<Group<'_>> {
        let mut all = groups(&self.state);
        let found = choose(&all, wanted);
        match found.as_slice() {
            [only] => Ok(all.swap_remove(*only)),
            [] => {
                let names: Vec<String> = all.iter().flat_map(Group::names).map(|(full, _)| full).collect();
                let near = nearest(wanted, names.iter().map(String::as_str));
                Err(Error::NoSuchHandler {
                    wanted: wanted.to_owned(),
                    session: self.state.name.clone(),
                    near: near.into_iter().map(str::to_owned).collect(),
                })
            }
            several => Err(Error::WhichHandler {
                wanted: wanted.to_owned(),
                names: several.iter().map(|index| all[*index].name()).collect(),
            }),
        }
    }

    /// Names of the handlers but one of which something is true.
    fn others(&self, but: &str, that: impl Fn(&HandlerState) -> bool) -> Vec<String> {
        let all = groups(&self.state);
        let others = all
            .iter()
            .filter(|group| group.parts.iter().any(|part| that(part.row)));
        others.map(Group::name).filter(|name| name != but).collect()
    }
}

impl Change {
    /// Gives a parameter that a handler uses another value, written as in a table file (`20ms`, `4M`, `true`). When this returns, no handler
    /// runs any more that saw the old one.
    ///
    /// # Errors
    /// [`Error::NoSuchHandler`], [`Error::WhichHandler`]; [`Error::NoSuchParameter`] where the handler does not use it; [`Error::Table`] where
    /// the text is no value of its type.
    pub fn set_parameter(&self, handler: &str, parameter: &str, text: &str) -> Result<Setting> {
        let group = self.find(handler)?;
        let name = group.name();
        let known = self.steered_by(&group);
        let places = (0..).zip(&self.state.parameters);
        let mut used = places.filter(|(_, state)| known.contains(state.name.as_str()));
        let Some((place, state)) = used.find(|(_, state)| state.name == parameter) else {
            return Err(Error::NoSuchParameter {
                wanted: parameter.to_owned(),
                place: format!("the handler {name}"),
                known: known.into_iter().map(str::to_owned).collect(),
            });
        };
        let new = state
            .parameter()
            .parse(text)
            .map_err(|diagnostics| Error::Table {
                file: parameter.to_owned(),
                source_text: text.to_owned(),
                diagnostics,
            })?;
        let old = self.control.parameter(place);
        self.control.set_parameter(place, new);
        wait_for_running_programs()?;
        Ok(Setting {
            parameter: parameter.to_owned(),
            old: state.show(old),
            new: state.show(new),
            others: self.others(&name, |row| uses(&self.state, row, parameter)),
            handler: name,
        })
    }

    /// Empties the maps of a handler, and lets its counts begin at 0. Maps that have a name are empty for all their users; of one that is kept by
    /// event, only this handler's events go.
    ///
    /// # Errors
    /// [`Error::NoSuchHandler`], [`Error::WhichHandler`], and the kernel's.
    pub fn reset_handler(&mut self, handler: &str) -> Result<ResetResult> {
        let now = HandlersStatus::of(&self.session)?;
        let group = self.session.find(handler)?;
        let name = group.name();
        let (uses, events) = (group.maps(), group.numbers());
        let mut next = self.session.state.clone();
        for part in &group.parts {
            let row = &mut next.hooks[part.place.hook].programs[part.place.program].rows[part.place.row];
            row.reset = Some(now.baseline(part));
        }
        let mut maps = self.session.maps()?;
        self.transact(|_| Ok((Staged::of(next), ())))?;
        let types: Vec<MapType> = self.state.maps.clone();
        let mut emptied = Vec::new();
        let shown = types.iter().filter(|ty| !ty.is_hidden());
        for ty in shown.filter(|ty| uses.contains(&ty.number)) {
            let mut others = Vec::new();
            if ty.by_event {
                maps.forget(ty.number, &events)?;
            } else {
                maps.clear(&ty.name)?;
                others = self.others(&name, |row| row.maps.contains(&ty.number));
            }
            emptied.push((ty.title(), others));
        }
        Ok(ResetResult {
            handler: name,
            maps: emptied,
        })
    }
}

/// Counts of a session's handlers at a moment.
struct HandlersStatus<'s> {
    session: &'s PinnedSession,
    buffers: Vec<Buffer>,
    maps: Vec<Snapshot>,
    uncounted: bool,
    misses: Misses,
}

impl<'s> HandlersStatus<'s> {
    fn of(session: &'s PinnedSession) -> Result<Self> {
        let buffers = session.buffers()?;
        let streams = |b: &Buffer| b.name() != MESSAGES && b.ring().geometry().mode == Mode::Stream;
        Ok(Self {
            uncounted: buffers.iter().any(streams),
            buffers,
            maps: session.map_snapshots()?,
            misses: Misses::new(&session.host),
            session,
        })
    }

    fn handler(&self, group: &Group<'_>) -> Handler {
        let mut events = Vec::new();
        let mut missed = 0;
        for part in &group.parts {
            let reset = part.row.reset.as_ref();
            // The counts in the rings cannot be set back: what they were at the last reset is taken off.
            let earlier = reset.map_or(&[][..], |reset| &reset.counts);
            let earlier = earlier.iter().copied().chain(std::iter::repeat((0, 0)));
            let counts = part.events().zip(earlier).map(|((event, _, first), earlier)| {
                let (kept, lost) = counts_of(&self.buffers, first, part.row.records, part.only_asks());
                EventCounts {
                    event: event.to_owned(),
                    kept: kept.saturating_sub(earlier.0),
                    lost: lost.saturating_sub(earlier.1),
                }
            });
            events.extend(counts);
            let before = reset.map_or(0, |reset| reset.missed);
            missed += self
                .session
                .misses_of(part.hook, &self.misses)
                .saturating_sub(before);
        }
        let active = self.session.active();
        let rows = || group.parts.iter().map(|part| part.row);
        Handler {
            name: group.name(),
            source: rows()
                .next()
                .map_or_else(String::new, |row| row.source.to_string()),
            tables: group.tables.iter().map(|name| (*name).to_owned()).collect(),
            active: active.is_some_and(|table| group.tables.contains(&table.name.as_str()))
                || group.parts.iter().any(|part| self.session.works(part.hook)),
            events,
            records: rows().map(|row| row.records).max().unwrap_or(0),
            messages: !group.parts.is_empty() && group.parts.iter().all(Part::only_asks),
            uncounted: self.uncounted,
            missed,
            reset: rows()
                .filter_map(|row| row.reset.as_ref())
                .map(|reset| reset.at)
                .max(),
            maps: self.maps_of(group),
            parameters: self.parameters_of(group),
            programs: self.programs_of(group),
        }
    }

    fn baseline(&self, part: &Part<'_>) -> Baseline {
        let counts = part
            .events()
            .map(|(_, _, first)| counts_of(&self.buffers, first, part.row.records, part.only_asks()));
        Baseline {
            at: ClockPair::now().realtime,
            counts: counts.collect(),
            missed: self.session.misses_of(part.hook, &self.misses),
        }
    }

    fn maps_of(&self, group: &Group<'_>) -> Vec<Snapshot> {
        let uses = group.maps();
        let numbers = group.numbers();
        let own = |snapshot: &Snapshot| {
            let mut snapshot = snapshot.clone();
            if snapshot.ty.by_event {
                let Snapshot { ty, rows, .. } = &mut snapshot;
                rows.retain(|row| {
                    let number = row.keys(ty).next().and_then(|key| key.as_u64());
                    number.is_some_and(|number| numbers.contains(&number))
                });
            }
            snapshot
        };
        let used = self
            .maps
            .iter()
            .filter(|snapshot| uses.contains(&snapshot.ty.number));
        used.map(own).collect()
    }

    fn programs_of(&self, group: &Group<'_>) -> Vec<ObjectProgram> {
        let mut programs: Vec<ObjectProgram> = Vec::new();
        for call in group.parts.iter().filter_map(|part| part.row.call.as_ref()) {
            let mut objects = self.session.state.objects.iter();
            let object = objects.find(|object| object.number == call.object);
            let program = ObjectProgram {
                object: call.object,
                path: object.map_or_else(String::new, |object| object.path.clone()),
                program: call.program.clone(),
            };
            if !programs.contains(&program) {
                programs.push(program);
            }
        }
        programs
    }

    fn parameters_of(&self, group: &Group<'_>) -> Vec<ParameterValue> {
        let uses = self.session.steered_by(group);
        let all = self.session.state.parameters.iter().enumerate();
        let used = all.filter(|(_, parameter)| uses.contains(parameter.name.as_str()));
        let value = |(place, parameter): (usize, &ParameterState)| ParameterValue {
            name: parameter.name.clone(),
            value: parameter.show(self.session.control.parameter(place)),
        };
        used.map(value).collect()
    }
}

impl PinnedSession {
    /// Names of the parameters that a handler depends on.
    fn steered_by<'s>(&'s self, group: &Group<'s>) -> BTreeSet<&'s str> {
        let rows = || group.parts.iter().map(|part| part.row);
        let names = self.state.parameters.iter().map(|known| known.name.as_str());
        names
            .filter(|name| rows().any(|row| uses(&self.state, row, name)))
            .collect()
    }
}

/// Whether a handler depends on a parameter: by its text, or because a buffer is for the process in it, so that it says where the handler's records go.
fn uses(state: &State, row: &HandlerState, parameter: &str) -> bool {
    let named = |owner: &Owner| matches!(owner, Owner::Parameter(name) if name == parameter);
    let mut owners = state.buffers.iter().filter_map(|buffer| buffer.process.as_ref());
    row.parameters.iter().any(|used| used == parameter) || (row.records > 0 && owners.any(named))
}

/// Records kept and lost in some buffers under so many numbers from the first on; of those for an agent (`asks`) and of others the ones of their
/// own buffers count.
pub(super) fn counts_of(buffers: &[Buffer], first: u64, records: u16, asks: bool) -> (u64, u64) {
    let mut sum = (0, 0);
    for number in first..first + u64::from(records) {
        let Ok(number) = u16::try_from(number) else {
            continue;
        };
        let has_room = |buffer: &&Buffer| u32::from(number) < buffer.ring().geometry().events;
        for buffer in buffers.iter().filter(has_room) {
            for cpu in buffer.ring().cpus() {
                let counts = buffer.counts(cpu, number);
                if asks == (buffer.name() == MESSAGES) {
                    sum.0 += counts.recorded;
                }
                sum.1 += counts.lost;
            }
        }
    }
    sum
}
