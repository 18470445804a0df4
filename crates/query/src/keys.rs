//! Keys of groups: expressions whose values tell records apart.

use crate::background::Background;
use crate::bind;
use crate::code::Subject;
use crate::error::Result;
use crate::expression::{ByEvent, at_events, parsed};
use crate::words;
use kestrel_compiler::lang::ast;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_trace::event::EventClass;
use kestrel_trace::export::json_value;
use kestrel_trace::print;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Value;
use serde_json::Value as Json;

/// Expressions separated by commas, bound to the events of a trace.
#[derive(Clone, Debug)]
pub struct Keys {
    names: Vec<String>,
    columns: Vec<ByEvent<Column>>,
    /// By the number of an event: whether its values depend on nothing but the event, the thread and its name, and the CPU.
    is_thread_constant: Vec<bool>,
    warnings: Vec<Diagnostic>,
    symbols: Symbols,
}

/// An expression at one event.
#[derive(Clone, Debug)]
enum Column {
    /// A field by its index, whatever its type: it looks as in printed records.
    Field(usize),
    /// The name of the event.
    Event,
    /// A thread with its name: `bash-1977`.
    Thread,
    /// A process with its name.
    Process,
    /// The value of any other expression.
    Value(bind::Value),
}

impl Keys {
    /// Binds expressions to the events of a trace; `symbols` name addresses.
    ///
    /// # Errors
    /// When one of them is no expression, or means nothing at any of the events.
    pub fn new<'e>(
        text: &str,
        events: impl IntoIterator<Item = &'e EventClass> + Clone,
        symbols: Symbols,
    ) -> Result<Self> {
        let (mut names, mut columns, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts(text) {
            let expr = parsed(part)?;
            let (column, found) =
                at_events(part, events.clone(), |event| match direct_column(&expr, event) {
                    Some(column) => Ok((column, Vec::new())),
                    None => bind::value(&expr, event).map(|(value, found)| (Column::Value(value), found)),
                })?;
            names.push(part.to_owned());
            columns.push(column);
            warnings.extend(found);
        }
        let mut is_thread_constant = Vec::new();
        for event in events {
            let number = usize::from(event.id.0);
            is_thread_constant.resize(is_thread_constant.len().max(number + 1), false);
            let of_event =
                |column: &ByEvent<Column>| column.at(event.id).is_some_and(Column::is_thread_constant);
            is_thread_constant[number] = columns.iter().all(of_event);
        }
        Ok(Self {
            names,
            columns,
            is_thread_constant,
            warnings,
            symbols,
        })
    }

    /// Warnings about the expressions of the keys.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
}

/// Column of an expression that needs no code: a field, or a word for what every record has.
fn direct_column(expr: &ast::Expr, event: &EventClass) -> Option<Column> {
    if let ast::ExprKind::Identifier(word) = &expr.kind {
        match word.as_str() {
            "event" | "probe" => return Some(Column::Event),
            "thread" => return Some(Column::Thread),
            "process" => return Some(Column::Process),
            _ => {}
        }
    }
    let known = words::field(expr, event)?;
    let mut fields = event.layout.fields().iter();
    fields
        .position(|field| field.name == known.name)
        .map(Column::Field)
}

impl Column {
    fn is_thread_constant(&self) -> bool {
        match self {
            Self::Field(_) => false,
            Self::Event | Self::Thread | Self::Process => true,
            Self::Value(bind::Value::Number(number, _)) => number.is_thread_constant(),
            Self::Value(bind::Value::Text(text)) => text.is_thread_constant(),
        }
    }
}

impl Keys {
    /// Whether all values of a record depend on nothing but its event, its thread with its name, and its CPU.
    #[inline]
    pub(crate) fn are_thread_constant(&self, record: &Record<'_>) -> bool {
        let number = usize::from(record.event.id.0);
        self.is_thread_constant
            .get(number)
            .is_some_and(|is_thread_constant| *is_thread_constant)
    }

    /// The expressions as they were written.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The values of the expressions as text; none where the event lacks a field of one.
    pub fn shown(&self, record: &Record<'_>, background: &Background) -> Vec<String> {
        let mut values = Vec::new();
        self.each(record, background, |value| {
            let mut text = Vec::new();
            print::value(value, &self.symbols, &mut text);
            values.push(String::from_utf8_lossy(&text).into_owned());
        });
        values
    }

    /// Appends bytes that are equal exactly for records of one group: numbers are equal whatever their types are at two events, strings that were cut differ from
    /// whole ones, as their trailer shows. False where the event lacks a field.
    pub(crate) fn group_key(&self, record: &Record<'_>, background: &Background, out: &mut Vec<u8>) -> bool {
        self.each(record, background, |value| match value {
            Value::Text(text) | Value::CutText(text) => {
                out.push(if matches!(value, Value::CutText(_)) {
                    b'c'
                } else {
                    b't'
                });
                out.extend_from_slice(text);
                out.push(0);
            }
            value => match value.as_u64() {
                Some(number) => {
                    out.push(b'n');
                    out.extend_from_slice(&number.to_le_bytes());
                }
                None => {
                    out.push(b'o');
                    print::value(value, &self.symbols, out);
                    out.push(0);
                }
            },
        })
    }

    /// The values of the expressions.
    pub fn json(&self, record: &Record<'_>, background: &Background) -> Vec<Json> {
        let mut values = Vec::new();
        self.each(record, background, |value| {
            values.push(json_value(value, &self.symbols));
        });
        values
    }
}

impl Keys {
    /// Calls `each` with the value of every column; false where the event of the record lacks one.
    fn each(&self, record: &Record<'_>, background: &Background, mut each: impl FnMut(Value<'_>)) -> bool {
        let event = record.event.id;
        if self.columns.iter().any(|column| column.at(event).is_none()) {
            return false;
        }
        let subject = Subject::new(record, background);
        let named = |tid: u32| {
            let name = background.processes.name_bytes(tid, record.pid);
            [name.unwrap_or(b"<...>"), format!("-{tid}").as_bytes()].concat()
        };
        for column in &self.columns {
            match column.at(event) {
                Some(Column::Field(field)) => each(record.value(&record.event.layout.fields()[*field])),
                Some(Column::Event) => each(Value::Text(record.event.name.as_bytes())),
                Some(Column::Thread) => each(Value::Text(&named(record.tid))),
                Some(Column::Process) => each(Value::Text(&named(record.pid))),
                Some(Column::Value(bind::Value::Number(code, ty))) => {
                    let bytes = code.value(&subject).to_le_bytes();
                    each(Value::read(ty, &bytes));
                }
                Some(Column::Value(bind::Value::Text(text))) => {
                    each(text.value(&subject).map_or(Value::Fault, Value::Text));
                }
                None => return false,
            }
        }
        true
    }
}

/// The expressions of a list: commas in parentheses, brackets, braces and quotes do not separate.
pub(crate) fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped, mut from) = (0i32, false, false, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}
