//! The state of a persistent session, as its pins hold it, and queries of it; values that change from event to event stand in the control page.

mod codec;
mod from_plan;
mod object;
mod parameter;
mod probes;
mod to_plan;

pub(super) use from_plan::{messages, parameter, uses};
pub use object::{CallState, ObjectMapState, ObjectState};
pub use parameter::ParameterState;
pub use probes::{Arming, Instruction, ProbeState, Probes, SiteState};

use kestrel_catalog::attach::{Mechanism, OnlineCpu, own_event};
use kestrel_hook::buffer::REMOVED;
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_hook::hook::control::{MAX_TABLES, Table};
use kestrel_hook::hook::owner::Owner;
use kestrel_hook::hook::relay::Relay;
use kestrel_kernel::Host;
use kestrel_kernel::tracefs::Tracefs;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::info::BufferInfo;
use kestrel_trace::layout::Names;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The version of the state that this Kestrel writes and reads.
pub const VERSION: u32 = 8;

/// A session, as its pins hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// [`VERSION`].
    pub version: u32,
    /// Sources of the handlers, in the session's map alone, where each handler has its source's index in this list (`codec`).
    #[serde(default, rename = "texts", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Arc<str>>,
    /// The session's name.
    pub name: String,
    /// The identity of its trace.
    pub uuid: String,
    /// Version of the Kestrel that made the session.
    pub tracer: String,
    /// The command that made the session, as typed.
    pub command: String,
    /// Time at which the session was made, ns since 1970.
    pub started: u64,
    /// Generation of the state: rises by one with each change.
    pub generation: u64,
    /// The tables, in the order of loading.
    pub tables: Vec<TableState>,
    /// Tables that are being taken out: the next change finishes that first.
    pub retiring: Vec<RetiringTable>,
    /// Names of tables by their places; a name keeps its place for good.
    pub places: Vec<String>,
    /// Number of the next table.
    pub next_table: u32,
    /// Number of the next hook.
    pub next_hook: u32,
    /// Number of the next kind of record.
    pub next_record: u32,
    /// The session's hooks.
    pub hooks: Vec<HookState>,
    /// The buffers by number.
    pub buffers: Vec<BufferState>,
    /// Whether writers of its streams wake their readers: sessions of older Kestrels have no bells.
    #[serde(default)]
    pub bell: bool,
    /// The parameters by place.
    pub parameters: Vec<ParameterState>,
    /// The handlers' maps by number.
    pub maps: Vec<MapType>,
    /// Numbers of the control groups that handlers name by their paths: handlers that are compiled again mean the same groups.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub control_groups: BTreeMap<String, u64>,
    /// Compiled objects with handlers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectState>,
    /// Pinned links of programs that follow threads and their names.
    #[serde(rename = "followers")]
    pub trackers: u32,
    /// Numbers of the relays that programs of other hooks were made with ([`super::relay`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_relays: Vec<u32>,
    /// The session's named probes.
    pub probes: Probes,
}

impl State {
    /// Assigns a place to a table's name. Where all are taken, the place of a table that does not exist any more, and that no handler switches to, is reused; those that are being loaded
    /// keep theirs.
    pub(super) fn give_place(&mut self, name: &str, loaded: &[String]) {
        let rows = || {
            self.hooks
                .iter()
                .flat_map(|hook| &hook.programs)
                .flat_map(|program| &program.rows)
        };
        let is_free = |(place, known): (usize, &String)| {
            let there = self
                .tables
                .iter()
                .any(|table| table.name == *known || table.uses.contains(known));
            let leaving = self.retiring.iter().any(|table| table.place as usize == place);
            let there = there || loaded.contains(known);
            (!there && !leaving && !rows().any(|row| row.named_tables.contains(known))).then_some(place)
        };
        let free = match self.places.len() < MAX_TABLES as usize {
            true => None,
            false => self.places.iter().enumerate().find_map(is_free),
        };
        match free {
            Some(free) => name.clone_into(&mut self.places[free]),
            None => self.places.push(name.to_owned()),
        }
    }

    /// The buffers' rings as a trace describes them: for each the ring before the last resize, and the current one.
    pub fn rings(&self) -> Vec<BufferInfo> {
        let mut rings = Vec::new();
        let there = (0..)
            .zip(&self.buffers)
            .filter(|(_, buffer)| !buffer.is_removed());
        for (place, buffer) in there {
            for part in buffer.earlier().iter().chain([buffer]) {
                let number = BufferInfo::numbered(place, part.resized);
                rings.push(part.geometry().info(number, &part.name));
            }
        }
        rings
    }

    /// Events of tracefs that were made for the session's hooks.
    pub(super) fn own_events(&self) -> Vec<String> {
        let all = self.hooks.iter().flat_map(|hook| &hook.own_events);
        all.cloned().collect()
    }
}

/// State of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableState {
    /// The table's name.
    pub name: String,
    /// The number: new each time that a table is loaded under this name.
    pub number: u32,
    /// The place among those that `use_table` names.
    pub place: u32,
    /// The slot of its handlers, where it was loaded into the running session.
    pub slot: Option<u32>,
    /// The file that it comes from, as given.
    pub file: Option<String>,
    /// Time of loading, ns since 1970.
    pub loaded: u64,
    /// Names of the tables that its handlers may switch to.
    pub uses: Vec<String>,
}

impl TableState {
    /// The table as one that is on its way out.
    pub(in crate::session) fn retiring(&self) -> RetiringTable {
        RetiringTable {
            number: self.number,
            place: self.place,
            slot: self.slot,
        }
    }

    /// Active word while this table is used.
    pub fn word(&self) -> Table {
        word(self.number, self.slot)
    }
}

fn word(number: u32, slot: Option<u32>) -> Table {
    match slot {
        Some(slot) => Table::in_slot(number, slot),
        None => Table::known(number),
    }
}

/// A table that is being removed, while handlers may still use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetiringTable {
    /// The table's number.
    pub number: u32,
    /// The table's place among those that `use_table` names.
    pub place: u32,
    /// The slot, if it had one.
    pub slot: Option<u32>,
}

impl RetiringTable {
    /// The table's word in the control page, while it is still in use.
    pub fn word(&self) -> Table {
        word(self.number, self.slot)
    }
}

/// A hook: the programs attached to one event, or to a set of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookState {
    /// Number of the hook, which is in the names of its pins.
    pub number: u32,
    /// The event kind's canonical name.
    pub kind: String,
    /// Description of the mechanism, for people.
    pub way: String,
    /// Mechanism of attaching.
    pub attached: Option<Mechanism>,
    /// Whether its functions share one link, which wants another type of program than a link for each.
    pub multi: bool,
    /// Number of pinned links.
    pub links: u32,
    /// The CPU of each link, where there is one link for each CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<OnlineCpu>,
    /// Events of tracefs that were made for it, and go with the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_events: Vec<String>,
    /// The events; where there are several, the program distinguishes them by their places here.
    pub events: Vec<EventState>,
    /// Programs: the first is the hook itself, the others stand in its slots.
    pub programs: Vec<ProgramState>,
    /// Number of the named probe that the hook is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<u32>,
    /// Whether the hook only serves another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub companion: bool,
    /// Number of attached programs, with slots of their own, where the hook has second chances ([`super::second_chance`]); else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copies: u32,
    /// The hook on the same event that reads the active word for this one, which is its relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Relay>,
    /// Build of the module for which the hook's programs were compiled, where it is attached again with its module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_build: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// State of an event of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventState {
    /// Name of the event.
    pub name: String,
    /// The event itself, where `name` is that of a named probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The value that distinguishes it from the hook's others, if there is one.
    pub code: Option<u32>,
}

impl EventState {
    /// Event name by which events are looked for.
    pub(super) fn event(&self) -> &str {
        self.event.as_deref().unwrap_or(&self.name)
    }
}

/// State of a program of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    /// The slot; none for the hook itself.
    pub slot: Option<u32>,
    /// Number of the first record of its first event.
    pub first: u16,
    /// Kinds of record per event.
    pub records: u16,
    /// The handlers that the program has.
    pub rows: Vec<HandlerState>,
    /// Places of the events that its records are of, in the order of their numbers; empty: all of the hook's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<u16>,
    /// Places of the records that ask something of user space, among the records of its handlers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<u16>,
}

impl ProgramState {
    /// Whether `records` of its records from `from` on are all for an agent.
    pub(super) fn only_asks(&self, from: u16, records: u16) -> bool {
        records > 0 && (from..from + records).all(|record| self.messages.contains(&record))
    }

    /// The number of the first record of an event at a place in the hook; none where it has no records of it.
    pub(super) fn number_of(&self, place: u16) -> Option<u16> {
        let instance = match self.events.as_slice() {
            [] => place,
            some => some.iter().position(|event| *event == place)? as u16,
        };
        Some(self.first + instance * self.records)
    }
}

/// State of a handler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerState {
    /// The handler's text: one for all hooks of its events in a state that was read from its map.
    pub source: Arc<str>,
    /// Numbers of the tables that it stands in.
    pub tables: Vec<u32>,
    /// Kinds of record that it writes.
    pub records: u16,
    /// Places of the handler's events; empty: all of the hook's.
    pub events: Vec<u16>,
    /// Numbers of the maps that it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<u32>,
    /// Names of the parameters that it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// Names of the tables that it switches to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_tables: Vec<String>,
    /// Names of the buffers that it writes to, switches to or changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_buffers: Vec<String>,
    /// The program of an object that it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallState>,
    /// Counts at the time of its last reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<Baseline>,
}

/// Counts at a handler's last reset, from which on they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Time of the reset, ns since 1970.
    pub at: u64,
    /// Records kept and lost, for each of the row's events.
    pub counts: Vec<(u64, u64)>,
    /// Hits that the hook's program missed.
    pub missed: u64,
}

/// State of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferState {
    /// The buffer's name.
    pub name: String,
    /// Mode of the buffer: overwrite the oldest record, or refuse the newest.
    pub overwrite: bool,
    /// Pages per CPU.
    pub pages: u32,
    /// One more than the highest record number that it has room for.
    pub events: u32,
    /// Process whose records it takes, if it is limited to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Owner>,
    /// Number of resizes.
    #[serde(default)]
    pub resized: u32,
    /// Pages per CPU that it had before it was last resized: that ring is kept as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
    /// The number `events` at that time, where it was less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_before: Option<u32>,
}

impl BufferState {
    /// Name in the place of a removed buffer.
    pub(super) fn name_of_removed(place: u32) -> String {
        format!("{REMOVED}{place}")
    }

    /// Whether this is only the place of a removed buffer.
    pub fn is_removed(&self) -> bool {
        self.name.starts_with(REMOVED)
    }

    /// The buffer before its last resize.
    pub fn earlier(&self) -> Option<Self> {
        let pages = self.before?;
        Some(Self {
            pages,
            events: self.events_before.unwrap_or(self.events),
            resized: self.resized.checked_sub(1)?,
            before: None,
            events_before: None,
            ..self.clone()
        })
    }

    /// The shape of the buffer's rings.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            mode: if self.overwrite {
                Mode::Overwrite
            } else {
                Mode::Stream
            },
            pages: self.pages,
            events: self.events,
        }
    }
}

impl HookState {
    /// Whether the hook is attached by this mechanism.
    pub(in crate::session) fn is_attached(&self, mechanism: &Mechanism) -> bool {
        self.attached
            .as_ref()
            .is_some_and(|attached| attached.is_same_after_reload(mechanism))
    }

    /// The `maxactive` of a kretprobe, where it was given: its event's name does not have it.
    pub(in crate::session) fn maxactive(&self) -> Option<u32> {
        self.attached.as_ref().and_then(|attached| attached.maxactive())
    }

    /// Whether a table has a handler for one of its events.
    pub fn serves(&self, table: u32) -> bool {
        self.rows_of(table).next().is_some()
    }

    fn rows_of(&self, table: u32) -> impl Iterator<Item = &HandlerState> {
        let rows = self.programs.iter().flat_map(|program| &program.rows);
        rows.filter(move |row| row.tables.contains(&table))
    }

    /// Whether the hook has slots: those of named probes have some where their programs refer to buffers, or call programs of objects.
    pub(super) fn has_slots(&self) -> bool {
        let calls = |program: &ProgramState| program.rows.iter().any(|row| row.call.is_some());
        self.probe.is_none() || self.has_records() || self.programs.first().is_some_and(calls)
    }

    /// Whether the hook's programs refer to buffers.
    pub(super) fn has_records(&self) -> bool {
        let records = |program: &ProgramState| program.rows.iter().any(|row| row.records > 0);
        self.programs.first().is_some_and(records)
    }

    /// Events that have a handler in a table.
    pub(crate) fn events_in(&self, table: u32) -> usize {
        let count = |row: &HandlerState| match row.events.len() {
            0 => self.events.len(),
            some => some,
        };
        self.rows_of(table).map(count).sum()
    }
}

impl State {
    /// Whether no program is being removed.
    pub(crate) fn is_settled(&self) -> bool {
        self.retiring.is_empty() && !self.probes.renewed
    }

    /// The numbers of its hooks that learn from another hook which table is active.
    pub(super) fn relays(&self) -> Vec<u32> {
        let relays = self.hooks.iter().filter(|hook| hook.relay.is_some());
        relays.map(|hook| hook.number).collect()
    }

    /// Relays that the handlers of other hooks were not made with: a load was killed, or was refused memory, before it recompiled them.
    pub fn unknown_relays(&self) -> Vec<u32> {
        let mut relays = self.relays();
        relays.retain(|hook| !self.known_relays.contains(hook));
        relays
    }

    /// Whether the session has no table but that of its named probes.
    pub(crate) fn holds_only_probes(&self) -> bool {
        self.tables
            .iter()
            .all(|table| self.probes.table == Some(table.number))
    }

    /// A table by its name.
    pub fn table(&self, name: &str) -> Option<&TableState> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The table that the active word names.
    pub fn active(&self, word: Table) -> Option<&TableState> {
        self.tables.iter().find(|table| table.word() == word)
    }

    /// Events that have a handler in a table.
    pub(crate) fn events_in(&self, table: u32) -> usize {
        self.hooks.iter().map(|hook| hook.events_in(table)).sum()
    }

    /// Number of different handlers of a table, by their sources.
    pub(crate) fn handlers_in(&self, table: u32) -> usize {
        let mut sources: Vec<&str> = self
            .hooks
            .iter()
            .flat_map(|hook| hook.rows_of(table).map(|row| &*row.source))
            .collect();
        sources.sort_unstable();
        sources.dedup();
        sources.len()
    }

    /// The first slot that no table has.
    pub(crate) fn free_slot(&self, besides: &[u32]) -> Option<u32> {
        let tables = self.tables.iter().filter_map(|table| table.slot);
        let retiring = self.retiring.iter().filter_map(|table| table.slot);
        let taken: Vec<u32> = tables.chain(retiring).chain(besides.iter().copied()).collect();
        (0..kestrel_hook::hook::MAX_TABLE_SLOTS).find(|slot| !taken.contains(slot))
    }

    /// The names of its events by their numbers.
    pub(super) fn event_names(&self) -> Names {
        let mut all = Vec::new();
        for hook in &self.hooks {
            for program in &hook.programs {
                let events = (0..).zip(&hook.events);
                all.extend(events.filter_map(|(place, event)| {
                    Some((i64::from(program.number_of(place)?), event.name.clone()))
                }));
            }
        }
        all.into()
    }
}
/// Removes the events of tracefs that hooks had whose links have gone.
pub(super) fn remove_events(host: &Host, hooks: &[HookState]) {
    let names: Vec<String> = hooks.iter().flat_map(|hook| hook.own_events.clone()).collect();
    if let (false, Ok(tracefs)) = (names.is_empty(), Tracefs::open(host)) {
        own_event::remove(&tracefs, &names);
    }
}
