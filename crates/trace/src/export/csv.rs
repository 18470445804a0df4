//! Comma-separated values (RFC 4180, lines that end with LF): a line of names, then a line for each record, for spreadsheets and data frames.

use super::clock::{Clock, Times};
use super::field::{Part, Words};
use super::format::{Export, Format, KnownNames};
use crate::event::EventClass;
use crate::layout::Base;
use crate::print::{Piece, Scratch, decimal, escape::escape, value};
use crate::process::{PerThread, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::syscall::Meaning;
use crate::value::Value;

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
    known: KnownNames,
    /// Names of the fields' columns.
    names: Vec<String>,
    /// Rows of each event, by its number.
    rows: Vec<Option<Row>>,
    /// A value in the making.
    cell: Vec<u8>,
    /// `,1977,1977,bash`
    threads: PerThread<Piece>,
    line: Scratch,
}

/// The common part of an event's rows.
#[derive(Clone, Debug)]
struct Row {
    /// `,sched:sched_switch`
    event: Piece,
    /// The fields in the order of the columns, with the commas before each.
    cells: Vec<Part>,
    /// The commas behind the last one, and the end of the line.
    end: Piece,
}

impl Csv {
    fn new(times: Times, symbols: Symbols, processes: Processes) -> Self {
        Self {
            clock: Clock::new(times),
            known: KnownNames::new(symbols, processes),
            names: Vec::new(),
            rows: Vec::new(),
            cell: Vec::new(),
            threads: PerThread::default(),
            line: Scratch::default(),
        }
    }
}

impl Export for Csv {
    fn begin(&mut self, events: &[&EventClass], out: &mut Vec<u8>) {
        let mut all = Vec::new();
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
            all.push((event, columns));
        }
        for (event, columns) in all {
            let number = usize::from(event.id.0);
            self.rows.resize(self.rows.len().max(number + 1), None);
            self.rows[number] = Some(Row::new(event, &columns, self.names.len()));
        }
        let names = COLUMNS.into_iter().chain(self.names.iter().map(String::as_str));
        for (index, name) in names.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            text(name.as_bytes(), out);
        }
        out.extend_from_slice(b"\n");
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.known.learn(record);
        let (line, symbols, cell) = (&mut self.line, &self.known.symbols, &mut self.cell);
        line.clear();
        line.decimal(self.clock.ns(record.time_ns));
        line.byte(b',');
        line.decimal(record.cpu.into());
        let thread = |piece: &mut Piece, name: Option<&[u8]>| piece.set(&thread(record, name));
        line.piece(self.threads.of(record, &self.known.processes, thread));
        let number = usize::from(record.event.id.0);
        if self.rows.len() <= number {
            self.rows.resize(number + 1, None);
        }
        // One that was not said to come has no columns.
        let none = || Row::new(record.event, &[], self.names.len());
        let row = self.rows[number].get_or_insert_with(none);
        line.piece(&row.event);
        for part in &mut row.cells {
            part.write(record, line, |it, out| {
                cell.clear();
                match it {
                    // Programs read these: numbers are numbers, whatever base people want them in.
                    // Other tools know a device by these two numbers.
                    it @ Value::Unsigned {
                        base: Base::Named(Meaning::KernelDevice),
                        ..
                    } => value(it, symbols, cell),
                    Value::Signed { value, .. } => decimal(value, cell),
                    Value::Unsigned { value, .. } => decimal(value, cell),
                    it => value(it, symbols, cell),
                }
                quoted(cell, out);
            });
        }
        line.piece(&row.end);
        out.extend_from_slice(line.bytes());
    }

    fn names_mut(&mut self) -> &mut KnownNames {
        &mut self.known
    }
}

impl Row {
    /// A row of an event whose fields that are shown have these columns, of so many.
    fn new(event: &EventClass, columns: &[usize], all: usize) -> Self {
        let mut name = b",".to_vec();
        text(event.name.as_bytes(), &mut name);
        let fields = event.layout.fields().iter().enumerate();
        let shown = fields.filter(|(_, field)| field.is_shown());
        let mut cells: Vec<(usize, usize)> = columns
            .iter()
            .copied()
            .zip(shown.map(|(index, _)| index))
            .collect();
        cells.sort_unstable();
        let mut before = 0;
        let mut parts = Vec::new();
        for (column, field) in cells {
            let commas = vec![b','; column + 1 - before];
            parts.push(Part::new(Words::Cells, &commas, event, field, true));
            before = column + 1;
        }
        let mut end = vec![b','; all - before];
        end.push(b'\n');
        Self {
            event: Piece::new(&name),
            cells: parts,
            end: Piece::new(&end),
        }
    }
}

/// `,1977,1977,bash`
fn thread(record: &Record<'_>, name: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [record.pid, record.tid] {
        out.push(b',');
        decimal(number, &mut out);
    }
    out.push(b',');
    if let Some(name) = name {
        text(name, &mut out);
    }
    out
}

/// Appends a name of others, as values are shown: what a terminal would obey is spelled out.
fn text(name: &[u8], out: &mut Vec<u8>) {
    let mut shown = Vec::new();
    escape(name, &mut shown);
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
