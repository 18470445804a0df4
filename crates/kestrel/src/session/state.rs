//! What a session that stays says about itself: JSON text in a frozen map, one value for all; what changes from event to event stands in the control page.

use super::control::Table;
use crate::buffer::layout::{Geometry, Mode};
use crate::catalog::Attachment;
use crate::code::Place;
use crate::error::{Error, Result};
use crate::plan::{Hook, Plan, Row};
use kestrel_bpf::btf::TypeId;
use kestrel_compiler::check::globals::Parameter;
use kestrel_compiler::check::tree::{CheckedProbe, Message, Record};
use kestrel_compiler::check::tree::{Show, Type};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, ValueCheck};
use kestrel_trace::aggregate::MapType;
use kestrel_trace::layout::Base;
use kestrel_trace::layout::Names;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The version of the state that this Kestrel writes and reads.
pub const VERSION: u32 = 2;

/// A session, as its pins hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// [`VERSION`].
    pub version: u32,
    /// The session's name.
    pub name: String,
    /// The identity of its trace.
    pub uuid: String,
    /// Kestrel's version that made it.
    pub tracer: String,
    /// The command that made it, as typed.
    pub command: String,
    /// When it was made: ns since 1970.
    pub started: u64,
    /// Rises by one with each change.
    pub generation: u64,
    /// Its tables, in the order in which they came.
    pub tables: Vec<TableState>,
    /// Tables that are being taken out: whoever finds some finishes that first.
    pub retiring: Vec<Retiring>,
    /// Names of tables by their places; a name keeps its place for good.
    pub places: Vec<String>,
    /// Number of the next table.
    pub next_table: u32,
    /// Number of the next hook.
    pub next_hook: u32,
    /// Number of the next kind of record.
    pub next_record: u32,
    /// Its hooks.
    pub hooks: Vec<HookState>,
    /// Its buffers by number.
    pub buffers: Vec<BufferState>,
    /// Its parameters by place.
    pub parameters: Vec<ParameterState>,
    /// Its handlers' maps by number.
    pub maps: Vec<MapType>,
    /// Pinned links of programs that follow threads and their names.
    pub followers: u32,
    /// Its named probes.
    pub probes: Probes,
}

/// The named probes of a session: rows of a table that is in force beside the active one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probes {
    /// Their table's number; none until there was a probe.
    pub table: Option<u32>,
    /// In the order in which they came.
    pub each: Vec<ProbeState>,
    /// Number of the last one: a number is never used twice.
    pub last: u32,
    /// Record numbers of probes that have gone and never wrote a record.
    pub free: Vec<u16>,
    /// Those that are enabled as soon as the state of this generation is there.
    pub arming: Option<Arming>,
}

/// Named probes that are about to be enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arming {
    /// The state's generation.
    pub generation: u64,
    /// The probes' numbers.
    pub probes: Vec<u32>,
}

/// A named probe; whether it is enabled stands in the control page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeState {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// The place of its word in the control page, and of its hits.
    pub place: u32,
    /// Its text: events, predicate, block.
    pub source: String,
    /// The line of the kernel's own syntax that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// When it was added: ns since 1970.
    pub added: u64,
    /// Where it sits.
    pub sites: Vec<SiteState>,
    /// Records kept and refused under its numbers before it came: a probe of its name and shape had them.
    pub before: (u64, u64),
}

/// One event of a named probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteState {
    /// As people name it, its kind included.
    pub event: String,
    /// k, j or r as the kernel's list has it; t for tracepoints, f for trampolines.
    pub letter: char,
    /// Where in the kernel; 0 where it is in no place, or that is hidden.
    pub address: u64,
    /// The function, for function events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Bytes into it.
    pub offset: u32,
    /// The function's module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableState {
    /// Its name.
    pub name: String,
    /// Its number: new each time that a table is loaded under this name.
    pub number: u32,
    /// Its place among those that `use_table` names.
    pub place: u32,
    /// The slot of its handlers, where it was loaded into the running session.
    pub slot: Option<u32>,
    /// The file that it comes from, as given.
    pub file: Option<String>,
    /// When it was loaded: ns since 1970.
    pub loaded: u64,
    /// Names of the tables that its handlers may switch to.
    pub uses: Vec<String>,
}

impl TableState {
    /// What the active word says while this table is used.
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

/// A table that is on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retiring {
    /// Its number.
    pub number: u32,
    /// Its place.
    pub place: u32,
    /// Its slot, if it had one.
    pub slot: Option<u32>,
}

impl Retiring {
    /// What the active word says while it is used still.
    pub fn word(&self) -> Table {
        word(self.number, self.slot)
    }
}

/// A hook: what is attached to one event, or to a set of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookState {
    /// Its number: its pins bear it.
    pub number: u32,
    /// The event kind's canonical name.
    pub kind: String,
    /// How it is attached, for people.
    pub way: String,
    /// What it is attached to.
    pub attached: AttachmentState,
    /// Whether its functions share one link, which wants another type of program than a link for each.
    pub multi: bool,
    /// Its pinned links.
    pub links: u32,
    /// Its events; where there are several, the program tells them apart by their places here.
    pub events: Vec<EventState>,
    /// Programs: the first is the hook itself, the others stand in its slots.
    pub programs: Vec<ProgramState>,
    /// The number of the named probe that it is a part of: then it has no slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<u32>,
}

/// What a hook is attached to: [`Attachment`] as the state spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in Attachment")]
pub enum AttachmentState {
    #[default]
    Nothing,
    Tracepoint {
        group: String,
        name: String,
    },
    RawTracepoint {
        name: String,
    },
    TypedTracepoint {
        name: String,
        id: u32,
    },
    Functions {
        at_return: bool,
    },
    Instruction {
        module: Option<String>,
        symbol: String,
        offset: u64,
        address: u64,
        by_name: bool,
        at_return: bool,
    },
    Trampoline {
        function: String,
        id: u32,
        at_return: bool,
    },
}

impl From<&Attachment> for AttachmentState {
    fn from(attachment: &Attachment) -> Self {
        match attachment.clone() {
            Attachment::Tracepoint { group, name } => Self::Tracepoint { group, name },
            Attachment::RawTracepoint { name } => Self::RawTracepoint { name },
            Attachment::TypedTracepoint { name, id } => Self::TypedTracepoint { name, id: id.0 },
            Attachment::Functions { at_return } => Self::Functions { at_return },
            Attachment::Instruction {
                place,
                address,
                by_name,
                at_return,
            } => Self::Instruction {
                module: place.module,
                symbol: place.symbol,
                offset: place.offset,
                address,
                by_name,
                at_return,
            },
            Attachment::Trampoline {
                function,
                id,
                at_return,
            } => Self::Trampoline {
                function,
                id: id.0,
                at_return,
            },
        }
    }
}

impl AttachmentState {
    /// The same as the catalog has it.
    pub fn attachment(&self) -> Option<Attachment> {
        Some(match self.clone() {
            Self::Nothing => return None,
            Self::Tracepoint { group, name } => Attachment::Tracepoint { group, name },
            Self::RawTracepoint { name } => Attachment::RawTracepoint { name },
            Self::TypedTracepoint { name, id } => Attachment::TypedTracepoint { name, id: TypeId(id) },
            Self::Functions { at_return } => Attachment::Functions { at_return },
            Self::Instruction {
                module,
                symbol,
                offset,
                address,
                by_name,
                at_return,
            } => Attachment::Instruction {
                place: Place {
                    module,
                    symbol,
                    offset,
                },
                address,
                by_name,
                at_return,
            },
            Self::Trampoline {
                function,
                id,
                at_return,
            } => Attachment::Trampoline {
                function,
                id: TypeId(id),
                at_return,
            },
        })
    }
}

/// One of a hook's events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventState {
    /// As people name it.
    pub name: String,
    /// What tells it from the hook's others, where that is a value.
    pub code: Option<u32>,
}

/// One program of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    /// Its slot; none for the hook itself.
    pub slot: Option<u32>,
    /// Number of the first record of its first event.
    pub first: u16,
    /// Kinds of record per event.
    pub records: u16,
    /// Its handlers.
    pub rows: Vec<RowState>,
    /// Those of its records that are for an agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageState>,
}

/// A record that is for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageState {
    /// Its place among the records of the program's handlers.
    pub record: u16,
    /// What the agent does.
    pub ask: Ask,
    /// The text, or the command.
    pub text: String,
}

/// What an agent does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Tell.
    Notify,
    /// Run.
    Exec,
}

impl MessageState {
    /// The messages among the records of a program's handlers.
    pub(super) fn of(handlers: &[CheckedProbe]) -> Vec<Self> {
        let records = handlers.iter().flat_map(CheckedProbe::records);
        let message = |(record, kept): (u16, &Record)| {
            let (ask, text) = match kept.message.as_ref()? {
                Message::Notify(text) => (Ask::Notify, text),
                Message::Exec(command) => (Ask::Exec, command),
            };
            Some(Self {
                record,
                ask,
                text: text.clone(),
            })
        };
        (0..).zip(records).filter_map(message).collect()
    }

    fn message(&self) -> Message {
        match self.ask {
            Ask::Notify => Message::Notify(self.text.clone()),
            Ask::Exec => Message::Exec(self.text.clone()),
        }
    }
}

/// One handler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowState {
    /// Its text.
    pub source: String,
    /// Numbers of the tables that it stands in.
    pub tables: Vec<u32>,
    /// Kinds of record that it writes.
    pub records: u16,
    /// Places of the events that it is for; empty: all of the hook's.
    pub events: Vec<u16>,
    /// Numbers of the maps that it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<u32>,
    /// Names of the parameters that it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// What had been counted when its counts were last reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<Baseline>,
}

/// Counts from which on a handler's are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// When that was: ns since 1970.
    pub at: u64,
    /// Records kept and refused, for each of the row's events.
    pub counts: Vec<(u64, u64)>,
    /// Events that the hook's program skipped.
    pub skipped: u64,
}

impl RowState {
    /// What the state says about a plan's row, checked as `handler`.
    pub(super) fn of(row: &Row, handler: Option<&CheckedProbe>, events: Vec<u16>) -> Self {
        let uses = handler.map(CheckedProbe::uses).unwrap_or_default();
        Self {
            source: row.text().to_owned(),
            tables: row.tables.clone(),
            records: row.records,
            events,
            maps: uses.maps.into_iter().collect(),
            parameters: uses.parameters.into_iter().collect(),
            reset: None,
        }
    }
}

/// A buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferState {
    /// Its name.
    pub name: String,
    /// Whether it overwrites the oldest, or refuses the newest.
    pub overwrite: bool,
    /// Pages per CPU.
    pub pages: u32,
    /// One more than the highest record number that it has room for.
    pub events: u32,
}

impl BufferState {
    /// Its shape.
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

/// A parameter: its value stands in the control page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterState {
    /// Its name.
    pub name: String,
    /// The value that it started with.
    pub start: u64,
    /// Its type: bytes, or 0 for a truth value.
    pub size: u8,
    /// Whether it may be negative.
    pub signed: bool,
}

impl ParameterState {
    /// A value of it, as people read it.
    pub fn show(&self, value: u64) -> String {
        match (self.size, self.signed) {
            (0, _) => (value != 0).to_string(),
            (_, true) => value.cast_signed().to_string(),
            (_, false) => value.to_string(),
        }
    }

    /// The same as the compiler has it.
    pub fn parameter(&self) -> Parameter {
        let ty = match self.size {
            0 => Type::Bool,
            size => Type::Integer {
                size,
                signed: self.signed,
                show: Show::Number(Base::Decimal),
            },
        };
        Parameter {
            name: self.name.clone(),
            ty,
            value: self.start,
        }
    }
}

impl HookState {
    /// Whether a table has a handler for one of its events.
    pub fn serves(&self, table: u32) -> bool {
        self.rows_of(table).next().is_some()
    }

    fn rows_of(&self, table: u32) -> impl Iterator<Item = &RowState> {
        let rows = self.programs.iter().flat_map(|program| &program.rows);
        rows.filter(move |row| row.tables.contains(&table))
    }

    /// Events that have a handler in a table.
    pub fn events_in(&self, table: u32) -> usize {
        let count = |row: &RowState| match row.events.len() {
            0 => self.events.len(),
            some => some,
        };
        self.rows_of(table).map(count).sum()
    }
}

impl State {
    /// A table by its name.
    pub fn table(&self, name: &str) -> Option<&TableState> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The table that the active word names.
    pub fn active(&self, word: Table) -> Option<&TableState> {
        self.tables.iter().find(|table| table.word() == word)
    }

    /// What each record that is for an agent asks of it, by the record's number.
    pub fn messages(&self) -> HashMap<u16, Message> {
        let mut all = HashMap::new();
        for hook in &self.hooks {
            for program in &hook.programs {
                for instance in 0..hook.events.len() as u16 {
                    let first = program.first + instance * program.records;
                    all.extend(program.messages.iter().map(|m| (first + m.record, m.message())));
                }
            }
        }
        all
    }

    /// Events that have a handler in a table.
    pub fn events_in(&self, table: u32) -> usize {
        self.hooks.iter().map(|hook| hook.events_in(table)).sum()
    }

    /// Different handlers of a table, by their texts.
    pub fn handlers_in(&self, table: u32) -> usize {
        let mut sources: Vec<&str> = self
            .hooks
            .iter()
            .flat_map(|hook| hook.rows_of(table).map(|row| row.source.as_str()))
            .collect();
        sources.sort_unstable();
        sources.dedup();
        sources.len()
    }

    /// The first slot that no table has.
    pub fn free_slot(&self, besides: &[u32]) -> Option<u32> {
        let tables = self.tables.iter().filter_map(|table| table.slot);
        let retiring = self.retiring.iter().filter_map(|table| table.slot);
        let taken: Vec<u32> = tables.chain(retiring).chain(besides.iter().copied()).collect();
        (0..super::SLOTS).find(|slot| !taken.contains(slot))
    }

    /// Writes it into a map of its own that nobody can change.
    ///
    /// # Errors
    /// The kernel's.
    pub fn to_map(&self) -> Result<Map> {
        let failed = |error: serde_json::Error| Error::State {
            session: self.name.clone(),
            why: error.to_string(),
        };
        let mut text = serde_json::to_vec(self).map_err(failed)?;
        text.resize((text.len() + 1).next_multiple_of(8), 0);
        let map = Map::create(&MapSpec::new(
            MapKind::ARRAY,
            "kestrel_state",
            4,
            text.len() as u32,
            1,
        ))?;
        map.update(&0u32.to_ne_bytes(), &text, ValueCheck::Any)?;
        map.freeze()?;
        Ok(map)
    }

    /// Reads it from its map.
    ///
    /// # Errors
    /// When the map holds something else, or what another version of Kestrel wrote.
    pub fn from_map(map: &Map, session: &str) -> Result<Self> {
        let wrong = |why: String| Error::State {
            session: session.to_owned(),
            why,
        };
        let empty = || wrong("its map is empty".to_owned());
        if map.info().key_size != 4 {
            return Err(empty());
        }
        let bytes = map.lookup(&0u32.to_ne_bytes())?.ok_or_else(empty)?;
        Self::from_json(&bytes).map_err(wrong)
    }

    fn from_json(bytes: &[u8]) -> std::result::Result<Self, String> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let value: serde_json::Value =
            serde_json::from_slice(&bytes[..end]).map_err(|error| error.to_string())?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {
                serde_json::from_value(value).map_err(|error| error.to_string())
            }
            Some(other) => {
                let tracer = value
                    .get("tracer")
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or("?");
                Err(format!(
                    "it was made by Kestrel {tracer}, whose sessions are of version {other}; this is {}, of version {VERSION}",
                    env!("CARGO_PKG_VERSION")
                ))
            }
            None => Err("it has no version".to_owned()),
        }
    }

    /// The names of its events by their numbers.
    pub(super) fn event_names(&self) -> Names {
        let mut all = Vec::new();
        for hook in &self.hooks {
            for program in &hook.programs {
                let stride = usize::from(program.records.max(1));
                let numbers = (i64::from(program.first)..).step_by(stride);
                all.extend(numbers.zip(hook.events.iter().map(|event| event.name.clone())));
            }
        }
        all.into()
    }

    /// What a plan makes at the start, before anything is attached.
    pub(super) fn of_plan(name: &str, plan: &Plan, file: Option<&str>, now: u64) -> Self {
        let tables = (1u32..).zip(&plan.tables).map(|(number, table)| TableState {
            name: table.clone(),
            number,
            place: number - 1,
            slot: None,
            file: file.map(str::to_owned),
            loaded: now,
            uses: uses(plan, number),
        });
        let numbers = |hook: &Hook| {
            u32::from(hook.first) + hook.instances.len() as u32 * u32::from(hook.records.max(1))
        };
        Self {
            version: VERSION,
            name: name.to_owned(),
            tracer: env!("CARGO_PKG_VERSION").to_owned(),
            started: now,
            generation: 1,
            tables: tables.collect(),
            places: plan.tables.clone(),
            next_table: plan.tables.len() as u32 + 1,
            next_record: plan.hooks.iter().map(numbers).max().unwrap_or(1).max(1),
            buffers: plan.buffers.iter().map(buffer).collect(),
            parameters: plan.globals.parameters.iter().map(parameter).collect(),
            maps: plan.globals.maps.clone(),
            ..Self::default()
        }
    }
}

fn buffer(plan: &crate::plan::BufferPlan) -> BufferState {
    BufferState {
        name: plan.name.clone(),
        overwrite: plan.geometry.mode == Mode::Overwrite,
        pages: plan.geometry.pages,
        events: plan.geometry.events,
    }
}

pub(super) fn parameter(parameter: &Parameter) -> ParameterState {
    let (size, signed) = match &parameter.ty {
        Type::Bool => (0, false),
        Type::Integer { size, signed, .. } => (*size, *signed),
        _ => (8, false),
    };
    ParameterState {
        name: parameter.name.clone(),
        start: parameter.value,
        size,
        signed,
    }
}

/// Names of the tables that the handlers of the plan's table `number` may switch to.
pub(super) fn uses(plan: &Plan, number: u32) -> Vec<String> {
    let mut names = Vec::new();
    for hook in &plan.hooks {
        let Some(way) = hook.ways.first() else { continue };
        for (row, handler) in hook.rows.iter().zip(&way.handlers) {
            if row.tables.contains(&number) {
                super::uses::tables(handler, &mut names);
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(state: &State) -> Vec<u8> {
        serde_json::to_vec(state).unwrap()
    }

    #[test]
    fn what_is_written_is_read_with_zeros_behind_it() {
        let state = State {
            version: VERSION,
            name: "s".to_owned(),
            tables: vec![TableState {
                name: "t".to_owned(),
                number: 3,
                slot: Some(2),
                ..TableState::default()
            }],
            ..State::default()
        };
        let mut bytes = text(&state);
        bytes.extend([0; 9]);
        assert_eq!(State::from_json(&bytes), Ok(state.clone()));
        assert_eq!(state.active(Table::in_slot(3, 2)), state.table("t"));
        assert_eq!(state.active(Table::known(3)), None, "an older one of this number");
        assert_eq!(state.free_slot(&[0, 1]), Some(3));
    }

    #[test]
    fn another_version_is_told_apart_from_damage() {
        let state = State {
            version: VERSION + 7,
            tracer: "9.9".to_owned(),
            ..State::default()
        };
        let why = State::from_json(&text(&state)).unwrap_err();
        assert!(why.contains("Kestrel 9.9") && why.contains("version 8"), "{why}");
        for damage in [&b""[..], b"{}", b"[1]", b"\xff"] {
            let why = State::from_json(damage).unwrap_err();
            assert!(!why.contains("Kestrel"), "{why}");
        }
    }
}
