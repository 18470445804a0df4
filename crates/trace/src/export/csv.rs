//! Comma-separated values (RFC 4180, lines that end with LF): a line of names, then a line for each record, for spreadsheets and data frames.

use super::clock::{Clock, Times};
use super::format::{Export, Format};
use crate::event::EventClass;
use crate::print::{decimal, escape::escape, value};
use crate::process::{Learner, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use std::collections::HashMap;

pub(super) const FORMAT: Format = Format {
    name: "csv",
    about: "comma-separated values, a column for each field of any event",
    new: |style, symbols, processes| Box::new(Csv::new(style.times, symbols, processes)),
};

/// Columns before the fields.
const COLUMNS: [&str; 6] = ["time", "cpu", "pid", "tid", "comm", "event"];

/// Writes records as comma-separated values. The columns are `time` (ns of `CLOCK_MONOTONIC` unless other [`Times`] are asked for), `cpu`, `pid`, `tid`, `comm`, `event`, and the names of all fields of all events in the
/// order in which the trace describes them; what an event does not have is empty. A field that is named like one of the first six has `args.` before its name.
#[derive(Clone, Debug)]
struct Csv {
    clock: Clock,
    symbols: Symbols,
    processes: Processes,
    learner: Learner,
    /// Names of the fields' columns.
    names: Vec<String>,
    /// Of each event, by its number: the columns of its fields.
    columns: HashMap<u16, Vec<usize>>,
    /// Values of the record at hand, by column.
    row: Vec<Vec<u8>>,
}

impl Csv {
    fn new(times: Times, symbols: Symbols, processes: Processes) -> Self {
        Self {
            clock: Clock::new(times),
            symbols,
            processes,
            learner: Learner::default(),
            names: Vec::new(),
            columns: HashMap::new(),
            row: Vec::new(),
        }
    }
}

impl Export for Csv {
    fn begin(&mut self, events: &[&EventClass], out: &mut Vec<u8>) {
        for event in events {
            let mut columns = Vec::new();
            for field in event.layout.shown() {
                let name = match COLUMNS.contains(&field.name.as_str()) {
                    true => format!("args.{}", field.name),
                    false => field.name.clone(),
                };
                // An event in another tracer's file may have two fields of one name.
                let free = |at: &usize| self.names[*at] == name && !columns.contains(at);
                let column = (0..self.names.len()).find(free).unwrap_or_else(|| {
                    self.names.push(name.clone());
                    self.names.len() - 1
                });
                columns.push(column);
            }
            self.columns.insert(event.id.0, columns);
        }
        self.row = vec![Vec::new(); self.names.len()];
        let names = COLUMNS.into_iter().chain(self.names.iter().map(String::as_str));
        for (index, name) in names.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            text(name, out);
        }
        out.extend_from_slice(b"\n");
    }

    fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.learner.learn(record, &mut self.processes);
        for number in [
            self.clock.ns(record.time_ns),
            record.cpu.into(),
            record.pid.into(),
            record.tid.into(),
        ] {
            decimal(number, out);
            out.push(b',');
        }
        if let Some(name) = self.processes.name(record.tid, record.pid) {
            text(name, out);
        }
        out.push(b',');
        text(&record.event.name, out);
        self.row.iter_mut().for_each(Vec::clear);
        let columns = self.columns.get(&record.event.id.0);
        for ((_, it), column) in record.fields().zip(columns.into_iter().flatten()) {
            if let Some(cell) = self.row.get_mut(*column) {
                match it {
                    // Programs read these: numbers are numbers, whatever base people want them in.
                    Value::Signed { value, .. } => decimal(value, cell),
                    Value::Unsigned { value, .. } => decimal(value, cell),
                    it => value(it, &self.symbols, cell),
                }
            }
        }
        for cell in &self.row {
            out.push(b',');
            quoted(cell, out);
        }
        out.extend_from_slice(b"\n");
    }

    fn processes_mut(&mut self) -> &mut Processes {
        &mut self.processes
    }

    fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.symbols
    }
}

/// Appends a name of others, as values are shown: what a terminal would obey is spelled out.
fn text(name: &str, out: &mut Vec<u8>) {
    let mut shown = Vec::new();
    escape(name.as_bytes(), &mut shown);
    quoted(&shown, out);
}

/// Appends a value, in quotes where it needs them.
fn quoted(cell: &[u8], out: &mut Vec<u8>) {
    if !cell
        .iter()
        .any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'))
    {
        return out.extend_from_slice(cell);
    }
    out.push(b'"');
    for byte in cell {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
