//! The export to JSON: each record is an object on a line of its own, written directly and not by way of a tree of values.

use super::clock::{Clock, Times};
use super::field::{Part, Words};
use super::format::{Export, Format, KnownNames};
use crate::event::EventClass;
use crate::print::{JsonStyle, Piece, Scratch, decimal, json, string};
use crate::process::{PerThread, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::{KeptStack, Value};

pub(super) const FORMAT: Format = Format {
    name: "json",
    about: "a JSON object a line",
    new: |style, symbols, processes| {
        let json = Json::new(symbols, processes);
        Box::new(json.timed(style.times))
    },
};

/// Prints records as JSON: `{"time":…,"cpu":…,"pid":…,"tid":…,"comm":"…","event":"…","fields":{…}}`.
///
/// `time` is ns of `CLOCK_MONOTONIC` unless other [`Times`] are asked for; `comm` is left out where the thread's name is not known. Integers are numbers whatever their base; pointers, stack frames and flags are strings as people read
/// them; a named value of an enumeration is its name, another a number; bools are `true` and `false`;
/// a text that could not be read is `null`.
#[derive(Clone, Debug)]
pub struct Json {
    clock: Clock,
    known: KnownNames,
    /// The constant parts of each event's lines, at the index that is the event's number.
    keys: Vec<Option<Keys>>,
    /// `,"pid":1977,"tid":1977,"comm":"bash"`
    threads: PerThread<Piece>,
    line: Scratch,
}

/// The parts that all lines of an event have in common.
#[derive(Clone, Debug)]
struct Keys {
    name: String,
    /// Identity of the event's layout: a live trace may describe another event under the same number later.
    layout: u64,
    /// `,"event":"…","fields":{`
    head: Piece,
    /// Values with `"prev_comm":` before them, and the comma before that.
    fields: Vec<Part>,
}

impl Json {
    /// A printer with these symbols of the kernel and these names of threads.
    pub fn new(symbols: Symbols, processes: Processes) -> Self {
        Self {
            clock: Clock::new(Times::default()),
            known: KnownNames::new(symbols, processes),
            keys: Vec::new(),
            threads: PerThread::default(),
            line: Scratch::default(),
        }
    }

    /// Sets the origin of times.
    pub fn timed(self, times: Times) -> Self {
        let clock = Clock::new(times);
        Self { clock, ..self }
    }
}

impl Export for Json {
    fn names_mut(&mut self) -> &mut KnownNames {
        &mut self.known
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.known.learn(record);
        let id = usize::from(record.event.id.0);
        if self.keys.len() <= id {
            self.keys.resize(id + 1, None);
        }
        let known = self.keys[id].as_ref();
        if !known.is_some_and(|keys| keys.are_of(record.event)) {
            self.keys[id] = Some(Keys::of(record.event));
        }
        let Some(keys) = &mut self.keys[id] else { return };
        let (line, symbols) = (&mut self.line, &self.known.symbols);
        line.clear();
        line.text(b"{\"time\":");
        line.decimal(self.clock.ns(record.time_ns));
        line.text(b",\"cpu\":");
        line.decimal(record.cpu.into());
        let thread = |piece: &mut Piece, name: Option<&[u8]>| piece.set(&thread(record, name));
        line.piece(self.threads.of(record, &self.known.processes, thread));
        line.piece(&keys.head);
        for part in &mut keys.fields {
            part.write(record, line, |value, out| {
                json(value, JsonStyle::Record, symbols, out)
            });
        }
        line.text(b"}}\n");
        out.extend_from_slice(line.bytes());
    }

    fn stacks(&self, stacks: &[KeptStack], out: &mut Vec<u8>) {
        for stack in stacks {
            out.push(b',');
            string(stack.field.as_bytes(), out);
            out.push(b':');
            json(stack.value(), JsonStyle::Record, &self.known.symbols, out);
        }
    }
}

/// `,"pid":1977,"tid":1977,"comm":"bash"`
fn thread(record: &Record<'_>, name: Option<&[u8]>) -> Vec<u8> {
    let mut out = b",\"pid\":".to_vec();
    decimal(record.pid, &mut out);
    out.extend_from_slice(b",\"tid\":");
    decimal(record.tid, &mut out);
    if let Some(name) = name {
        out.extend_from_slice(b",\"comm\":");
        string(name, &mut out);
    }
    out
}

impl Keys {
    fn of(event: &EventClass) -> Self {
        let mut head = b",\"event\":".to_vec();
        string(event.name.as_bytes(), &mut head);
        head.extend_from_slice(b",\"fields\":{");
        let fields = event.layout.fields().iter().enumerate();
        let shown = fields.filter(|(_, field)| field.is_shown()).enumerate();
        let part = |(place, (index, field)): (usize, (usize, &crate::layout::Field))| {
            let mut key = if place > 0 { b",".to_vec() } else { Vec::new() };
            string(field.name.as_bytes(), &mut key);
            key.push(b':');
            Part::new(Words::Json, &key, event, index, true)
        };
        Self {
            name: event.name.clone(),
            layout: event.layout.identity(),
            head: Piece::new(&head),
            fields: shown.map(part).collect(),
        }
    }

    fn are_of(&self, event: &EventClass) -> bool {
        self.layout == event.layout.identity() && self.name == event.name
    }
}

/// A value as in records, for callers that build JSON of several.
pub fn json_value(value: Value<'_>, symbols: &Symbols) -> serde_json::Value {
    let mut text = Vec::new();
    json(value, JsonStyle::Record, symbols, &mut text);
    // What was written just now is valid JSON.
    serde_json::from_str(&String::from_utf8_lossy(&text)).unwrap_or_default()
}
