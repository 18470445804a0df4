//! One record as one JSON object on one line, written without a tree of values in between.

use super::clock::{Clock, Times};
use super::format::{Export, Format};
use crate::event::EventClass;
use crate::layout::Base;
use crate::print::escape::is_unsafe;
use crate::print::{TRUNCATED, decimal, flag_names, frame, hexadecimal, separate, symbol};
use crate::process::{Learner, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::{Value, name_of};

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
/// them; a named value of an enumeration is its name, another a number; truth values are `true` and `false`;
/// a text that could not be read is `null`.
#[derive(Clone, Debug)]
pub struct Json {
    clock: Clock,
    symbols: Symbols,
    processes: Processes,
    learner: Learner,
    /// By event number.
    keys: Vec<Option<Keys>>,
}

/// The parts of an event's lines that are always the same.
#[derive(Clone, Debug)]
struct Keys {
    name: String,
    /// `,"event":"…","fields":{`
    head: Vec<u8>,
    /// `"prev_comm":`, with the comma before it.
    fields: Vec<Vec<u8>>,
}

impl Json {
    /// A printer that knows these symbols of the kernel and these names of threads.
    pub fn new(symbols: Symbols, processes: Processes) -> Self {
        Self {
            clock: Clock::new(Times::default()),
            symbols,
            processes,
            learner: Learner::default(),
            keys: Vec::new(),
        }
    }

    /// One whose times are counted from something else.
    pub fn timed(self, times: Times) -> Self {
        let clock = Clock::new(times);
        Self { clock, ..self }
    }
}

impl Export for Json {
    fn processes_mut(&mut self) -> &mut Processes {
        &mut self.processes
    }

    fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.symbols
    }

    fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.learner.learn(record, &mut self.processes);
        let id = usize::from(record.event.id.0);
        if self.keys.len() <= id {
            self.keys.resize(id + 1, None);
        }
        let known = matches!(&self.keys[id], Some(keys) if keys.name == record.event.name);
        if !known {
            self.keys[id] = Some(Keys::of(record.event));
        }
        let Some(keys) = &self.keys[id] else { return };
        out.extend_from_slice(b"{\"time\":");
        decimal(self.clock.ns(record.time_ns), out);
        out.extend_from_slice(b",\"cpu\":");
        decimal(record.cpu, out);
        out.extend_from_slice(b",\"pid\":");
        decimal(record.pid, out);
        out.extend_from_slice(b",\"tid\":");
        decimal(record.tid, out);
        if let Some(name) = self.processes.name(record.tid, record.pid) {
            out.extend_from_slice(b",\"comm\":");
            string(name.as_bytes(), out);
        }
        out.extend_from_slice(&keys.head);
        for ((_, value), key) in record.fields().zip(&keys.fields) {
            out.extend_from_slice(key);
            json(value, &self.symbols, out);
        }
        out.extend_from_slice(b"}}\n");
    }
}

impl Keys {
    fn of(event: &EventClass) -> Self {
        let mut head = b",\"event\":".to_vec();
        string(event.name.as_bytes(), &mut head);
        head.extend_from_slice(b",\"fields\":{");
        let key = |(i, field): (usize, &crate::layout::Field)| {
            let mut key = if i > 0 { b",".to_vec() } else { Vec::new() };
            string(field.name.as_bytes(), &mut key);
            key.push(b':');
            key
        };
        Self {
            name: event.name.clone(),
            head,
            fields: event.layout.shown().enumerate().map(key).collect(),
        }
    }
}

/// A value as it is written in records, for those who build JSON of several.
pub fn json_value(value: Value<'_>, symbols: &Symbols) -> serde_json::Value {
    let mut text = Vec::new();
    json(value, symbols, &mut text);
    // What is written here is JSON.
    serde_json::from_slice(&text).unwrap_or_default()
}

fn json(value: Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    match value {
        Value::Signed { value, .. } => decimal(value, out),
        Value::Unsigned {
            value,
            base: Base::Float,
            ..
        } => match f64::from_bits(value) {
            value if value.is_finite() => out.extend_from_slice(value.to_string().as_bytes()),
            _ => out.extend_from_slice(b"null"),
        },
        Value::Unsigned { value, .. } => decimal(value, out),
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Pointer { address, symbolic } => quoted(out, |out| match symbolic {
            true => symbol(address, symbols, out),
            false => hexadecimal(address, out),
        }),
        Value::Enumeration { value, signed, names } => match name_of(value, names) {
            Some(name) => string(name.as_bytes(), out),
            None if signed => decimal(value, out),
            None => decimal(value as u64, out),
        },
        Value::Flags { bits, names } => {
            let mut text = Vec::new();
            flag_names(bits, names, &mut text);
            string(&text, out);
        }
        Value::Text(bytes) => string(bytes, out),
        Value::Array(elements) => list(elements.iter(), out, |value, out| json(value, symbols, out)),
        Value::Stack(frames) => {
            let addresses = frames.iter().map(Some).chain(frames.truncated.then_some(None));
            list(addresses.enumerate(), out, |(index, address), out| {
                quoted(out, |out| match address {
                    Some(address) => frame(&frames, index, address, symbols, out),
                    None => out.extend_from_slice(TRUNCATED.as_bytes()),
                });
            });
        }
        Value::Fault | Value::Missing => out.extend_from_slice(b"null"),
    }
}

fn list<T>(items: impl Iterator<Item = T>, out: &mut Vec<u8>, mut each: impl FnMut(T, &mut Vec<u8>)) {
    out.push(b'[');
    for (i, item) in items.enumerate() {
        separate(i, b",", out);
        each(item, out);
    }
    out.push(b']');
}

/// A string of text that hardly ever needs escapes: hexadecimal numbers and names of symbols.
fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    let start = out.len();
    write(out);
    if out[start..].iter().all(plain) {
        out.push(b'"');
    } else {
        let text = out.split_off(start);
        out.pop();
        string(&text, out);
    }
}

/// Whether a byte stands for itself in a JSON string.
fn plain(byte: &u8) -> bool {
    (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\'
}

/// A JSON string; bytes that are not UTF-8 become U+FFFD.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if bytes.iter().all(plain) {
        out.extend_from_slice(bytes);
    } else {
        for c in String::from_utf8_lossy(bytes).chars() {
            escaped(c, out);
        }
    }
    out.push(b'"');
}

fn escaped(c: char, out: &mut Vec<u8>) {
    match c {
        '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
        '\n' => out.extend_from_slice(b"\\n"),
        '\t' => out.extend_from_slice(b"\\t"),
        // JSON may hold some of these as they are; but what is meant for programs is looked at on terminals, too.
        c if is_unsafe(c) => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}
