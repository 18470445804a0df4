//! Records of `begin`, `end` and intervals whose contents are known before the program runs (`printf` of constants, `print(@map)`): the reader makes them
//! itself, so that the kernel need not verify code that writes them. What else `begin` and `end` do (`@x[1] = "one"`, `clear(@x)`) their program does
//! afterwards. Intervals that all only print and clear have no timers in the kernel: the reader counts their time.

use super::hook::{Hook, PlannedStrategy};
use kestrel_catalog::attach::OnRequest;
use kestrel_compiler::check::tree::{
    CheckedProbe, ExprKind, MapChange, MapPlace, Record, Statement, StatementKind,
};
use kestrel_compiler::context::{Context, END, ProgramKind};
use kestrel_trace::event::is_long;
use kestrel_trace::layout::{FieldPlace, FieldType};

/// The event before all others of a program.
const BEGIN: &str = "begin";
/// The kind of events that come from time to time.
const INTERVAL: &str = "interval";
/// Verbs whose records need nothing of the kernel but the time, and the values.
const VERBS: [&str; 5] = ["printf", "errorf", "warnf", "print", "time"];
const PRINT_MAP: &str = "print_map";
/// The generation that shows a reader that a map begins anew: none begins behind the end.
const CLEARED: &str = "cleared";
const ZEROED: &str = "zeroed";

/// When the handlers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Moment {
    /// Once, before anything else.
    #[default]
    Begin,
    /// Once, after all else.
    End,
    /// Again and again, beside all else.
    Interval,
}

/// The change of a map's generation when a record with it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The map goes on in the same generation.
    Unchanged,
    /// The map is cleared.
    Clears,
    /// The map's keys are kept, with zeroes.
    Zeroes,
}

/// The generation of a map, in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// Offset of the number.
    pub(crate) at: usize,
    /// The map's name.
    pub(crate) map: String,
    pub(crate) turn: Turn,
}

/// A record that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConstantRecord {
    /// Which of the hook's records it is.
    pub(crate) record: u16,
    /// The whole record, header included.
    pub(crate) bytes: Vec<u8>,
    /// Generation of a map, which is known when the record is made.
    pub(crate) generation: Option<Generation>,
}

impl ConstantRecord {
    /// Bytes of the record when the map has this generation.
    pub(crate) fn bytes(&self, generation: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let number = generation.to_le_bytes();
        let place = self.generation.as_ref().map(|generation| generation.at);
        if let Some(place) = place.and_then(|at| bytes.get_mut(at..at + number.len())) {
            place.copy_from_slice(&number);
        }
        bytes
    }
}

/// Handlers whose records are all known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Split {
    /// The records, in source order.
    pub(crate) known: Vec<ConstantRecord>,
    /// The handlers without them.
    pub(crate) rest: Vec<CheckedProbe>,
    /// Whether nothing is left of these.
    pub(crate) idle: bool,
}

/// Gives the intervals to the reader of their records, where the handlers of all of them do nothing but what a reader can do. Two that are due at the same
/// moment come in source order, also before an `exit` in the later one: clocks of the kernel's and the reader's would not keep to it.
pub(super) fn give_to_reader(hooks: &mut [Hook]) {
    let intervals = hooks.iter_mut().filter(|hook| hook.kind == INTERVAL);
    let given = intervals.map(|hook| Some((by_reader(hook)?, hook)));
    for (strategy, hook) in given.collect::<Option<Vec<_>>>().into_iter().flatten() {
        hook.strategies = vec![strategy];
    }
}

/// The strategy of an interval whose reader makes its records; none where its handlers do more than a reader can.
fn by_reader(hook: &Hook) -> Option<PlannedStrategy> {
    let ([strategy], [instance]) = (hook.strategies.as_slice(), hook.instances.as_slice()) else {
        return None;
    };
    let clock = strategy.mechanism.counter()?;
    if clock.every_cpu || clock.process.is_some() {
        return None;
    }
    let own = OnRequest {
        name: instance.name.clone(),
        every: Some(clock.period),
    };
    let by_reader = PlannedStrategy {
        mechanism: own.into(),
        context: Context {
            program: ProgramKind::RawTracepoint,
            ..strategy.context.clone()
        },
        ..strategy.clone()
    };
    let split = split(&by_reader)?;
    (split.idle && !split.known.is_empty()).then_some(by_reader)
}

/// The handlers of a strategy and their records apart; none where not all records are known.
pub(crate) fn split(strategy: &PlannedStrategy) -> Option<Split> {
    let own = strategy.mechanism.own_event()?;
    let moment = match own.name.as_str() {
        _ if own.every.is_some() => Moment::Interval,
        BEGIN => Moment::Begin,
        END => Moment::End,
        _ => return None,
    };
    let mut splitter = Splitter {
        moment,
        ..Splitter::default()
    };
    let mut rest = Vec::new();
    for handler in &strategy.checked {
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
    if moment == Moment::Interval {
        return (splitter.cleared.is_empty() && splitter.statements == 0).then_some(Split {
            known: splitter.known,
            rest,
            idle: true,
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

/// Number of records in statements.
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
    moment: Moment,
    known: Vec<ConstantRecord>,
    /// Number of records so far, and of statements that are kept.
    records: u16,
    statements: usize,
    /// Whether records need not be written at all.
    left_out: bool,
    /// Maps that were cleared so far; at an interval, of which no record has said it yet.
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
                        // Records that are never made keep their numbers, which are those of the source's order.
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
                StatementKind::Map(place, MapChange::Clear { .. }) if self.moment == Moment::Interval => {
                    self.clear(place)?;
                    continue;
                }
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

    /// Notes that a reader clears a map: one whose generations are apart from each other.
    fn clear(&mut self, place: &MapPlace) -> Option<()> {
        let has_instances = !place.map.keys.is_empty() || place.map.entries > 1;
        has_instances.then(|| self.cleared.push(place.map.name.clone()))
    }

    fn record(&mut self, record: &Record) -> Option<()> {
        let verb = record.asks.as_ref()?.verb.as_str();
        let number = self.records;
        self.records += 1;
        // At the end no reader shows the map after its clear: the record need not be written.
        if verb == CLEARED && self.moment == Moment::End {
            self.left_out = true;
            return Some(());
        }
        let turn = match (verb, self.moment) {
            (PRINT_MAP, Moment::End | Moment::Interval) => Some(Turn::Unchanged),
            (CLEARED, Moment::Interval) => Some(Turn::Clears),
            (ZEROED, Moment::Interval) => Some(Turn::Zeroes),
            _ => None,
        };
        if !VERBS.contains(&verb) && turn.is_none() || is_long(&record.layout, record.asks.as_ref()) {
            return None;
        }
        let mut made = ConstantRecord {
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
                (
                    ExprKind::ConstantBytes(text),
                    FieldType::CharArray { .. } | FieldType::InlineString { .. },
                ) => text.clone(),
                (ExprKind::Constant(number), FieldType::Integer { .. } | FieldType::Bool) => {
                    number.to_le_bytes().get(..size)?.to_vec()
                }
                (ExprKind::Generation(map), FieldType::Integer { size: 8, .. }) => {
                    let turn = turn?;
                    let cleared = self.cleared.iter().position(|name| *name == map.name);
                    match (turn, cleared) {
                        // A map that was cleared before in this body has another generation than the one in which the body begins.
                        (Turn::Unchanged, Some(_)) => return None,
                        (Turn::Unchanged, None) => {}
                        (Turn::Clears | Turn::Zeroes, place) => drop(self.cleared.remove(place?)),
                    }
                    made.generation = Some(Generation {
                        at: offset,
                        map: map.name.clone(),
                        turn,
                    });
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
