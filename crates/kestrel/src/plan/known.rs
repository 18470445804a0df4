//! Records of `begin` and `end` that are known before the program runs (`printf` of constants, `print(@map)`): whoever reads the records makes them, and the
//! kernel need not verify their writing. What else the handlers do (`@x[1] = "one"`, `clear(@x)`) their program does afterwards.

use super::hook::PlannedStrategy;
use kestrel_catalog::attach::Mechanism;
use kestrel_compiler::check::tree::{CheckedProbe, ExprKind, MapChange, Record, Statement, StatementKind};
use kestrel_trace::event::is_long;
use kestrel_trace::layout::{FieldPlace, FieldType};

/// Events of a program that happen once, while nothing else does.
const BEGIN: &str = "begin";
const END: &str = "end";
/// Verbs whose records need nothing of the kernel but the time, and the values.
const VERBS: [&str; 5] = ["printf", "errorf", "warnf", "print", "time"];
const PRINT_MAP: &str = "print_map";
/// What tells a reader that a map begins anew: none begins behind the end.
const CLEARED: &str = "cleared";

/// A record that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownRecord {
    /// Which of the hook's records it is.
    pub(crate) record: u16,
    /// The whole record, header included.
    pub(crate) bytes: Vec<u8>,
    /// Where in it stands how often a map was cleared, which is known when it is made, and the map's name.
    pub(crate) generation: Option<(usize, String)>,
}

/// Handlers whose records are all known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Split {
    /// The records, in source order.
    pub(crate) known: Vec<KnownRecord>,
    /// The handlers without them.
    pub(crate) rest: Vec<CheckedProbe>,
    /// Whether nothing is left of these.
    pub(crate) idle: bool,
}

/// The handlers of a way and their records apart; none where not all records are known.
pub(crate) fn split(way: &PlannedStrategy) -> Option<Split> {
    let Mechanism::OnRequest(own) = &way.mechanism else {
        return None;
    };
    if ![BEGIN, END].contains(&own.name.as_str()) {
        return None;
    }
    let mut splitter = Splitter {
        at_end: own.name == END,
        ..Splitter::default()
    };
    let mut rest = Vec::new();
    for handler in &way.handlers {
        if handler.predicate.is_some() || handler.pair.is_some() || handler.selector.is_some() {
            return None;
        }
        if handler
            .statements()
            .any(|one| matches!(one.kind, StatementKind::Return))
        {
            return None;
        }
        let before = splitter.records;
        let body = splitter.body(&handler.body)?;
        // Others stand inside of values.
        if usize::from(splitter.records - before) != handler.records().count() {
            return None;
        }
        rest.push(CheckedProbe {
            body,
            ..handler.clone()
        });
    }
    // Maps are printed as they are before anything changes.
    let asks_maps = splitter.known.iter().any(|known| known.generation.is_some());
    let only_clears = splitter.cleared.len() == splitter.statements;
    (only_clears || !asks_maps && !splitter.left_out).then_some(Split {
        known: splitter.known,
        rest,
        idle: splitter.statements == 0,
    })
}

/// How many records stand in statements.
fn records_in(body: &[Statement]) -> u16 {
    let handler = CheckedProbe {
        predicate: None,
        guarded: false,
        body: body.to_vec(),
        selector: None,
        variables: Vec::new(),
        pair: None,
    };
    handler.records().count() as u16
}

/// Goes through handlers, statement by statement.
#[derive(Debug, Default)]
struct Splitter {
    at_end: bool,
    known: Vec<KnownRecord>,
    /// Number of records so far, and of statements that are kept.
    records: u16,
    statements: usize,
    /// Whether records need not be written at all.
    left_out: bool,
    /// Maps that were cleared so far.
    cleared: Vec<String>,
}

impl Splitter {
    /// Filters a list of statements: gives those that are kept.
    fn body(&mut self, body: &[Statement]) -> Option<Vec<Statement>> {
        let mut rest = Vec::new();
        for statement in body {
            let kind = match &statement.kind {
                StatementKind::Record(record) => {
                    self.record(record)?;
                    continue;
                }
                StatementKind::Block(body) => StatementKind::Block(self.body(body)?),
                StatementKind::Handler(body) => StatementKind::Handler(self.body(body)?),
                StatementKind::If {
                    condition,
                    then,
                    otherwise,
                } => match condition.kind {
                    ExprKind::Constant(0) => {
                        self.records += records_in(then);
                        StatementKind::Block(self.body(otherwise)?)
                    }
                    ExprKind::Constant(_) => {
                        let then = self.body(then)?;
                        self.records += records_in(otherwise);
                        StatementKind::Block(then)
                    }
                    _ => return None,
                },
                StatementKind::Map(place, change) => {
                    self.statements += 1;
                    if *change == (MapChange::Clear { zeroed: false }) {
                        self.cleared.push(place.map.name.clone());
                    }
                    statement.kind.clone()
                }
                StatementKind::Set { .. } => {
                    self.statements += 1;
                    statement.kind.clone()
                }
                _ => return None,
            };
            rest.push(Statement {
                kind,
                span: statement.span,
            });
        }
        Some(rest)
    }

    fn record(&mut self, record: &Record) -> Option<()> {
        let verb = record.asks.as_ref()?.verb.as_str();
        let number = self.records;
        self.records += 1;
        if verb == CLEARED && self.at_end {
            self.left_out = true;
            return Some(());
        }
        let asks_map = verb == PRINT_MAP && self.at_end;
        if !VERBS.contains(&verb) && !asks_map || is_long(&record.layout, record.asks.as_ref()) {
            return None;
        }
        let mut made = KnownRecord {
            record: number,
            bytes: vec![0; record.layout.constant_size()? as usize],
            generation: None,
        };
        for (field, value) in record.layout.fields().iter().zip(&record.values) {
            let FieldPlace::Fixed { offset } = field.place else {
                return None;
            };
            let (offset, size) = (offset as usize, field.ty.fixed_size() as usize);
            let known = match (&value.kind, &field.ty) {
                (ExprKind::Text(text), FieldType::Text { .. } | FieldType::InlineString { .. }) => {
                    text.clone()
                }
                (ExprKind::Constant(number), FieldType::Integer { .. } | FieldType::Bool) => {
                    number.to_le_bytes().get(..size)?.to_vec()
                }
                (ExprKind::Generation(map), FieldType::Integer { size: 8, .. }) if asks_map => {
                    if self.cleared.contains(&map.name) {
                        return None;
                    }
                    made.generation = Some((offset, map.name.clone()));
                    continue;
                }
                _ => return None,
            };
            if known.len() > size {
                return None;
            }
            made.bytes
                .get_mut(offset..offset + known.len())?
                .copy_from_slice(&known);
        }
        self.known.push(made);
        Some(())
    }
}
