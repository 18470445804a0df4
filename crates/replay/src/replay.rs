//! A program over a recording: its handlers' code, its maps, and what it writes.

use crate::by_event::{ByEvent, HandlerId};
use crate::call::CallPlaces;
use crate::decode::{Decoded, decode};
use crate::error::{Error, Result};
use crate::event::Unpacking;
use crate::machine::Machine;
use crate::output::{self, Output};
use crate::remembering::{Missing, Remembering};
use crate::subject::Subject;
use crate::table::Table;
use kestrel_compiler::check::tree::CheckedProbe;
use kestrel_compiler::context::{Context, EventNumber};
use kestrel_compiler::ir::{MapKind, MapSpec, MapUse};
use kestrel_compiler::{compile, map};
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::aggregate::{MapType, state};
use kestrel_trace::calls::Signatures;
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Names;
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use std::rc::Rc;

#[derive(Debug)]
struct Handler {
    code: Decoded,
    /// How a record of its event becomes the context; `None` for handlers of raw_syscalls records, whose layout depends on the class ([`CallPlaces`]).
    unpacking: Option<Unpacking>,
    /// Name of its event.
    event: String,
    missing: Missing,
}

/// Output of a run: records, to be decoded by their classes.
#[derive(Debug)]
pub struct RunOutput {
    classes: Rc<EventTable>,
    bytes: Vec<u8>,
    time_ns: u64,
    cpu: u32,
}

/// A program whose handlers are compiled, with what its maps hold now.
#[derive(Debug)]
pub struct Replay {
    machine: Machine,
    /// The names by which programs refer to tables; empty for those that are one program's alone.
    table_names: Vec<String>,
    maps: Vec<MapType>,
    handlers: Vec<Handler>,
    by_event: ByEvent,
    output_classes: Rc<EventTable>,
    /// Names of the events, by the numbers that handlers write for them.
    event_names: Vec<(i64, String)>,
    /// The id of the next class of records that a handler writes.
    next_record_id: u16,
    /// Where the words of the output are, once a handler has them.
    output: Option<u64>,
    begin_ns: u64,
    /// The difference of the wall clock from records' times, ns.
    offset: i64,
    /// Generations up to which no older keys are left, by the maps' numbers.
    swept: Vec<u64>,
}

impl Replay {
    /// A program with these maps over a recording that begins at this time; `offset` is what its times need to be dates, in ns.
    pub fn new(maps: Vec<MapType>, begin_ns: u64, offset: i64) -> Self {
        Self {
            machine: Machine::new(),
            table_names: Vec::new(),
            maps,
            handlers: Vec::new(),
            by_event: ByEvent::default(),
            output_classes: Rc::default(),
            event_names: Vec::new(),
            next_record_id: 1,
            output: None,
            begin_ns,
            offset,
            swept: vec![0; state::MAX_MAPS as usize],
        }
    }

    /// Compiles a handler for an event; of a recorded one it runs for each record.
    ///
    /// # Errors
    /// When it asks for what no recording has, or does not fit.
    pub fn add(
        &mut self,
        handler: &CheckedProbe,
        context: &Context,
        event: Option<&EventClass>,
    ) -> Result<HandlerId> {
        let unpacking = event.map_or_else(Unpacking::default, |event| Unpacking::new(&event.layout));
        let id = self.compiled(handler, context, Some(unpacking))?;
        if let Some(event) = event {
            self.by_event.add(event.id, id);
        }
        Ok(id)
    }

    /// Compiles a handler for the system call of this number (or for all calls) over the raw_syscalls `events`.
    ///
    /// # Errors
    /// As [`Replay::add`].
    pub fn add_of_calls(
        &mut self,
        handler: &CheckedProbe,
        context: &Context,
        events: &[&EventClass],
        number: Option<u64>,
    ) -> Result<HandlerId> {
        let id = self.compiled(handler, context, None)?;
        for event in events {
            if let Some(places) = CallPlaces::of(event) {
                self.by_event.add_of_calls(event.id, places, number, id);
            }
        }
        Ok(id)
    }

    fn compiled(
        &mut self,
        handler: &CheckedProbe,
        context: &Context,
        unpacking: Option<Unpacking>,
    ) -> Result<HandlerId> {
        let context = Context {
            number: EventNumber::Constant(self.next_record_id),
            ..context.clone()
        };
        let program = compile(handler, &context, &Output)?;
        let maps: Vec<usize> = program.maps.iter().map(|used| self.table(used)).collect();
        let code = decode(&program.code, &maps, &self.machine.tables)?;
        self.event_names
            .push((self.next_record_id.into(), context.name.clone()));
        let number = self.next_record_id;
        for record in handler.records() {
            let class = EventClass {
                id: EventId(self.next_record_id),
                name: context.name.clone(),
                kind: String::new(),
                layout: record
                    .layout
                    .named_event(&context.name, &[(number.into(), &context.name)])
                    .unwrap_or_else(|| record.layout.clone()),
                action: record.asks.clone(),
                print: None,
            };
            Rc::make_mut(&mut self.output_classes).insert(class);
            self.next_record_id = self.next_record_id.saturating_add(1);
        }
        // A handler without records takes a number all the same: `event_names` has it by one of its own.
        if handler.records().next().is_none() {
            self.next_record_id = self.next_record_id.saturating_add(1);
        }
        let id = HandlerId(self.handlers.len());
        self.handlers.push(Handler {
            code,
            unpacking,
            event: context.name,
            missing: Missing::default(),
        });
        Ok(id)
    }

    /// The table for a map that a program uses.
    fn table(&mut self, used: &MapUse) -> usize {
        let (name, spec) = match used {
            MapUse::Private(spec) => (String::new(), spec.clone()),
            MapUse::External(name) => {
                if let Some(known) = self.table_names.iter().position(|known| known == name) {
                    return known;
                }
                (name.clone(), self.spec(name))
            }
        };
        let table = Table::new(&spec, &mut self.machine.memory);
        if name == output::MAP {
            self.output = Some(table.first());
            let begin = table.first().wrapping_add_signed(output::BEGIN.into());
            // The region is as long as the output.
            _ = self.machine.memory.store(begin, self.begin_ns.to_le_bytes());
        }
        self.table_names.push(name);
        self.machine.tables.push(table);
        self.machine.tables.len() - 1
    }

    /// Specification of the map of this name.
    fn spec(&self, name: &str) -> MapSpec {
        let mut maps = self.maps.iter();
        match name {
            output::MAP => return output::spec(),
            state::MAP => return map::state_spec(&self.maps),
            _ => {}
        }
        if let Some(ty) = self.maps.iter().find(|ty| map::external_name(ty) == name) {
            return map::spec(ty);
        }
        let stacks = maps
            .find(|ty| map::stacks_name(ty) == name)
            .and_then(map::stacks_spec);
        let stacks = stacks.unwrap_or(MapSpec {
            name: name.to_owned(),
            kind: MapKind::StackTrace,
            key: 4,
            value: 8,
            entries: 1,
            flags: 0,
        });
        // Found by their frames, numbered by their places.
        MapSpec {
            kind: MapKind::Hash,
            key: stacks.value,
            value: 0,
            ..stacks
        }
    }

    /// Makes the memory that records of these events hold known to programs; `signatures` are the system calls of the recording.
    pub fn remember_memory(&mut self, events: &[EventClass], signatures: Signatures) {
        self.machine.remembering = Some(Box::new(Remembering::new(events, signatures)));
    }

    /// Keeps the memory that a record holds: for every record, before its handlers run.
    #[inline]
    pub fn remember(&mut self, record: &Record<'_>) {
        if let Some(remembering) = &mut self.machine.remembering {
            remembering.remember(record);
        }
    }

    /// Says up to when records may be missing before the next one ([`kestrel_trace::ctf::read::Reader::next_with_gap`]): returns of calls that were entered before
    /// are not paired with their entries.
    #[inline]
    pub fn set_gap(&mut self, gap_ns: u64) {
        if let Some(remembering) = &mut self.machine.remembering {
            remembering.set_gap(gap_ns);
        }
    }

    /// Number of returns with memory that were not paired with the entries of their calls, because records may be missing between them.
    pub fn unpaired(&self) -> u64 {
        self.machine.remembering.as_ref().map_or(0, |it| it.unpaired())
    }

    /// The reads of memory that was not recorded, by the names of the events whose handlers did them, in their order.
    pub fn missing(&self) -> Vec<(&str, Missing)> {
        let mut all: Vec<(&str, Missing)> = Vec::new();
        for handler in &self.handlers {
            if handler.missing == Missing::default() {
                continue;
            }
            match all.iter_mut().find(|(event, _)| *event == handler.event) {
                Some((_, missing)) => missing.add(handler.missing),
                None => all.push((&handler.event, handler.missing)),
            }
        }
        all
    }

    /// Whether a recorded event has handlers.
    #[inline]
    pub fn wants(&self, event: EventId) -> bool {
        self.by_event.wants(event)
    }

    /// Runs the handlers of a record, calling `each` with what each has written.
    ///
    /// # Errors
    /// Errors of `each`, and [`Error`] of a program that does what it must not.
    #[inline]
    pub fn record<E: From<Error>>(
        &mut self,
        record: &Record<'_>,
        processes: &Processes,
        each: &mut dyn FnMut(&mut Self, RunOutput) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let handlers = self.by_event.of_record(record);
        if handlers.count == 0 {
            return Ok(());
        }
        let subject = Subject::of(*record, processes);
        for place in 0..handlers.count {
            let Some(handler) = self.by_event.handler(handlers, place) else {
                break;
            };
            if let Some(written) = self.run(handler, &subject)? {
                each(self, written)?;
            }
        }
        Ok(())
    }

    /// Runs a handler; gives what it has written, if anything.
    ///
    /// # Errors
    /// Of a program that does what it must not, or does not end.
    #[inline]
    pub fn run(&mut self, handler: HandlerId, subject: &Subject<'_>) -> Result<Option<RunOutput>> {
        let Some(handler) = self.handlers.get_mut(handler.0) else {
            return Ok(None);
        };
        if let (Some(record), Some(context)) = (
            &subject.record,
            self.machine.memory.region_mut(self.machine.places.context),
        ) {
            match &handler.unpacking {
                Some(unpacking) => unpacking.unpack(record, context),
                None => {
                    if let Some(places) = self.by_event.places(record.event.id) {
                        places.unpack(record, context);
                    }
                }
            }
        }
        self.machine.run(&handler.code, subject)?;
        if let Some(remembering) = &mut self.machine.remembering {
            handler.missing.add(std::mem::take(&mut remembering.missing));
        }
        let Some(output) = self.output else {
            return Ok(None);
        };
        let used = self.word(output);
        if used == 0 {
            return Ok(None);
        }
        Ok(Some(self.take(output, used, subject)))
    }

    fn take(&mut self, output: u64, used: u64, subject: &Subject<'_>) -> RunOutput {
        let data = output + u64::from(output::DATA);
        let bytes = self.machine.memory.bytes(data, used as usize);
        let bytes = bytes.unwrap_or_default().to_vec();
        _ = self.machine.memory.store(output, [0; 8]);
        RunOutput {
            classes: self.output_classes.clone(),
            bytes,
            time_ns: subject.time_ns,
            cpu: subject.cpu(),
        }
    }

    fn word(&self, address: u64) -> u64 {
        self.machine.memory.load(address).map_or(0, u64::from_le_bytes)
    }

    /// Number of records that had no room in one run's output.
    pub fn lost(&self) -> u64 {
        self.output.map_or(0, |output| {
            self.word(output.wrapping_add_signed(output::LOST.into()))
        })
    }

    /// The maps that are shown at the end.
    pub fn shown(&self) -> impl Iterator<Item = &MapType> {
        self.maps.iter().filter(|ty| !ty.is_hidden())
    }

    /// Contents of a map now, or as of a generation; `value` is what a map without keys held then, where that is known.
    pub fn snapshot(
        &self,
        name: &str,
        generation: Option<u64>,
        value: Option<u64>,
        now: u64,
    ) -> Option<Snapshot> {
        let ty = self.maps.iter().find(|ty| ty.name == name)?;
        let mut state = self.state();
        let at = state::generation(ty.number) as usize;
        if let (Some(generation), Some(word)) = (generation, state.get_mut(at..at + 8)) {
            word.copy_from_slice(&generation.to_le_bytes());
        }
        let names: Names = self.event_names.iter().cloned().collect();
        let named = ty.named(&names);
        if let (Some(value), true) = (value, ty.keys.is_empty()) {
            let value = value.to_le_bytes();
            let elements = [(vec![0; 4], [value.as_slice()])];
            return Some(Snapshot::by_name(&named, &state, elements));
        }
        let asked = generation.is_some();
        let generation = state::word(&state, state::generation(ty.number));
        // A map without keys keeps its last `entries` generations in a ring; the index is the generation's place in it.
        let index = (generation & u64::from(ty.entries.max(1) - 1)) as u32;
        let one = ty.keys.is_empty() && ty.entries > 1;
        let elements = self
            .find(&map::external_name(ty))
            .into_iter()
            .flat_map(|table| table.elements(&self.machine.memory))
            .filter(|(key, _)| !one || *key == index.to_le_bytes())
            .map(|(key, value)| (key, [value]));
        let snapshot = match asked {
            true => Snapshot::by_name(&named, &state, elements),
            false => Snapshot::new(&named, &state, elements),
        };
        let snapshot = snapshot.dated(self.offset);
        let Some(stacks) = self.find(&map::stacks_name(ty)) else {
            return Some(snapshot);
        };
        Some(snapshot.with_stacks(now, |number, most| {
            let frames = stacks.interned(&self.machine.memory, number)?;
            let (words, _) = frames.as_chunks::<8>();
            let used = words
                .iter()
                .take(most as usize)
                .take_while(|word| **word != [0; 8]);
            Some(used.flatten().copied().collect())
        }))
    }

    fn find(&self, name: &str) -> Option<&Table> {
        let place = self.table_names.iter().position(|known| known == name)?;
        self.machine.tables.get(place)
    }

    fn state(&self) -> Vec<u8> {
        let state = self.find(state::MAP);
        let bytes = state.and_then(|table| {
            let bytes = self.machine.memory.bytes(table.first(), state::ZEROES as usize);
            bytes.ok()
        });
        bytes.map_or_else(|| vec![0; state::ZEROES as usize], <[u8]>::to_vec)
    }

    /// Removes the keys of a map's generations before this one; where this one is `zeroed`, they are kept with zero.
    pub fn sweep(&mut self, name: &str, generation: u64, zeroed: bool) {
        let Some(ty) = self.maps.iter().find(|ty| ty.name == name) else {
            return;
        };
        let external = map::external_name(ty);
        let Some(place) = self.table_names.iter().position(|known| *known == external) else {
            return;
        };
        let (Some(swept), Some(table)) = (
            self.swept.get_mut(ty.number as usize),
            self.machine.tables.get_mut(place),
        ) else {
            return;
        };
        let before = std::mem::replace(swept, generation.max(*swept));
        if !ty.keys.is_empty() {
            let gone = table.retain(&self.machine.memory, |key| ty.is_since(generation, key));
            for mut key in gone.into_iter().filter(|_| zeroed && ty.generations) {
                if let Some(word) = key.first_chunk_mut() {
                    *word = generation.to_le_bytes();
                }
                table.put_zeroes(&mut self.machine.memory, &key);
            }
            return;
        }
        let entries = ty.entries.max(1);
        for old in (before..generation).rev().take(entries as usize - 1) {
            let index = (old & u64::from(entries - 1)) as u32;
            if let Some((_, value)) = table.element(index)
                && let Ok(bytes) = self.machine.memory.bytes_mut(value, table.value_size)
            {
                bytes.fill(0);
            }
        }
    }
}

impl RunOutput {
    /// The records, in the order in which they were written.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let record = self.classes.record(rest, self.cpu, 0).ok()?;
            rest = rest
                .get(record.bytes.len().next_multiple_of(8)..)
                .unwrap_or_default();
            Some(Record {
                time_ns: self.time_ns,
                ..record
            })
        })
    }
}
