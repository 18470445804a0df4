//! What records of a program ask for, done: texts printed, maps shown.

use crate::session::Session;
use crate::session::maps::symbols;
use kestrel_catalog::Result;
use kestrel_kernel::Host;
use kestrel_trace::aggregate::{json, text};
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Value;

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
}

impl Perform {
    /// Nothing performed yet.
    pub fn new(symbols: Symbols, host: Host, json: bool) -> Self {
        Self {
            json,
            out: Vec::new(),
            symbols,
            host,
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
                let text = super::printf::text(&action.text, &values, &self.symbols);
                self.print("printf", &text);
            }
            "print" => {
                let mut line = Vec::new();
                if let Some(value) = values.first() {
                    kestrel_trace::print::value(*value, &self.symbols, &mut line);
                }
                line.push(b'\n');
                let line = String::from_utf8_lossy(&line).into_owned();
                self.print("value", &line);
            }
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

    fn print(&mut self, kind: &str, text: &str) {
        match self.json {
            true => {
                let line = serde_json::json!({"type": kind, "data": text});
                self.out.extend_from_slice(line.to_string().as_bytes());
                self.out.push(b'\n');
            }
            false => self.out.extend_from_slice(text.as_bytes()),
        }
    }

    fn map(&mut self, session: &Session, name: &str, values: &[Value<'_>]) -> Result<()> {
        let generation = values.first().map_or(0, number) as u64;
        let value = values.get(1).map(|value| number(value) as u64);
        let named: Vec<_> = session
            .map_generation(name, generation, value)?
            .into_iter()
            .collect();
        let (symbols, _notes) = symbols(&named, &self.host, None);
        for snapshot in &named {
            let lines = match self.json {
                true => json(snapshot, &symbols).to_string() + "\n",
                false => text(snapshot, &symbols) + "\n",
            };
            self.out.extend_from_slice(lines.as_bytes());
        }
        Ok(())
    }

    /// Shows all maps, as at the program's end.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn maps(&mut self, session: &Session) -> Result<()> {
        let snapshots = session.map_snapshots()?;
        let (symbols, _notes) = symbols(&snapshots, &self.host, None);
        for snapshot in snapshots.iter().filter(|s| !s.is_empty()) {
            let lines = match self.json {
                true => json(snapshot, &symbols).to_string() + "\n",
                false => text(snapshot, &symbols) + "\n",
            };
            self.out.extend_from_slice(lines.as_bytes());
        }
        Ok(())
    }
}

/// A number, 0 for what is none.
pub(super) fn number(value: &Value<'_>) -> i64 {
    match value {
        Value::Signed { value, .. } => *value,
        Value::Unsigned { value, .. } => *value as i64,
        _ => 0,
    }
}
