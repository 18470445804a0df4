//! What records of a program ask for, done: texts printed, maps shown.

use crate::session::Session;
use crate::session::maps::symbols;
use kestrel_catalog::Result;
use kestrel_kernel::Host;
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::aggregate::{Show, ValueKind, json_line, written};
use kestrel_trace::print::printf::Format;
use kestrel_trace::print::{JsonStyle, Style, json, styled};
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Value;
use std::collections::HashMap;

/// What came of performing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was printed, if anything.
    Done,
    /// The program is to end, with this code.
    Exit(i64),
}

/// Performs records; what they print is collected until it is taken.
#[derive(Debug)]
pub struct Perform {
    /// Whether JSON lines are printed.
    pub json: bool,
    /// What was printed since it was taken last.
    pub out: Vec<u8>,
    symbols: Symbols,
    host: Host,
    /// Formats by their texts, parsed once.
    formats: HashMap<String, Format>,
}

impl Perform {
    /// Nothing performed yet.
    pub fn new(symbols: Symbols, host: Host, json: bool) -> Self {
        Self {
            json,
            out: Vec::new(),
            symbols,
            host,
            formats: HashMap::new(),
        }
    }

    /// Performs one record.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn record(&mut self, session: &Session, record: &Record<'_>) -> Result<Outcome> {
        let Some(action) = &record.event.action else {
            return Ok(Outcome::Done);
        };
        let values: Vec<Value<'_>> = record.fields().map(|(_, value)| value).collect();
        match action.verb.as_str() {
            "printf" => {
                let mut text = Vec::new();
                let format = self
                    .formats
                    .entry(action.text.clone())
                    .or_insert_with(|| Format::parse(&action.text));
                format.write(values, Style::BPFTRACE, &self.symbols, &mut text);
                self.print("printf", &text);
            }
            "print" => self.value(values.first().copied()),
            "print_map" => self.map(session, &action.text, &values)?,
            "cleared" => {
                let generation = values.first().map_or(0, number) as u64;
                session.sweep_map(&action.text, generation)?;
            }
            "exit" => {
                let code = values.first().map_or(0, number);
                return Ok(Outcome::Exit(code));
            }
            _ => {}
        }
        Ok(Outcome::Done)
    }

    /// A text, as it is or as a line of JSON.
    fn print(&mut self, kind: &str, text: &[u8]) {
        match self.json {
            true => {
                let text = String::from_utf8_lossy(text);
                let line = format!("{{\"type\": \"{kind}\", \"data\": {}}}\n", serde_json::json!(text));
                self.out.extend_from_slice(line.as_bytes());
            }
            false => self.out.extend_from_slice(text),
        }
    }

    /// A value on a line of its own.
    fn value(&mut self, value: Option<Value<'_>>) {
        let Some(value) = value else { return };
        match self.json {
            true => {
                self.out.extend_from_slice(b"{\"type\": \"value\", \"data\": ");
                json(value, JsonStyle::BPFTRACE, &self.symbols, &mut self.out);
                self.out.extend_from_slice(b"}\n");
            }
            false => {
                styled(value, Style::BPFTRACE, &self.symbols, &mut self.out);
                self.out.push(b'\n');
            }
        }
    }

    /// A map as it was when the record was written: its generation, what it held if it is one number, and how much of it is wanted.
    fn map(&mut self, session: &Session, name: &str, values: &[Value<'_>]) -> Result<()> {
        let (single, limits) = match name.split_once('\n') {
            Some((_, "one")) => (values.get(1), values.get(2..)),
            _ => (None, values.get(1..)),
        };
        let name = name.split('\n').next().unwrap_or_default();
        let generation = values.first().map_or(0, number) as u64;
        let value = single.map(|value| number(value) as u64);
        let limit = |at: usize, otherwise| {
            let limit = limits.and_then(|limits| limits.get(at));
            limit.map_or(otherwise, |limit| number(limit) as u64)
        };
        let show = Show {
            top: limit(0, 0),
            div: limit(1, 1),
            ..Show::all(Style::BPFTRACE)
        };
        let read = session.map_generation(name, generation, value)?;
        self.snapshots(read.into_iter().collect(), show);
        Ok(())
    }

    fn snapshots(&mut self, snapshots: Vec<Snapshot>, show: Show<'_>) {
        let (symbols, _notes) = symbols(&snapshots, &self.host, None);
        for snapshot in &snapshots {
            match self.json {
                true => json_line(snapshot, show, &symbols, &mut self.out),
                false => {
                    written(snapshot, show, &symbols, &mut self.out);
                    let keyed = !snapshot.ty.keys.is_empty() || matches!(snapshot.ty.value, ValueKind::Gathered(_));
                    if keyed {
                        self.out.push(b'\n');
                    }
                }
            }
        }
    }

    /// Shows all maps, as at the program's end.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn maps(&mut self, session: &Session) -> Result<()> {
        let mut snapshots = session.map_snapshots()?;
        snapshots.retain(|snapshot| !snapshot.is_empty());
        snapshots.sort_by(|a, b| a.ty.name.cmp(&b.ty.name));
        if !self.json && !snapshots.is_empty() {
            self.out.push(b'\n');
        }
        self.snapshots(snapshots, Show::all(Style::BPFTRACE));
        Ok(())
    }
}

/// A number, 0 for what is none.
fn number(value: &Value<'_>) -> i64 {
    match value {
        Value::Signed { value, .. } => *value,
        Value::Unsigned { value, .. } => *value as i64,
        Value::Enumeration { value, .. } => *value,
        Value::Pointer { address, .. } => *address as i64,
        Value::Bool(value) => i64::from(*value),
        _ => 0,
    }
}
