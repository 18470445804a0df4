//! The scope of a view: conditions on records, one for each step that was taken into the recording.

use kestrel_query::{Background, Criteria, Error, Filter, Keys};
use kestrel_trace::calls::{Reader as CallReader, Signatures};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::event::EventClass;
use kestrel_trace::export::{Export as _, Style, Text};
use kestrel_trace::print::{shown, thousands};
use kestrel_trace::record::Record;
use kestrel_trace::stacks::{Direction, Frame, Stacks, Weight};
use std::ops::RangeInclusive;

/// A condition on records, with the words for it.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    label: String,
    kind: ConditionKind,
}

#[derive(Clone, Debug)]
enum ConditionKind {
    /// Events of this name.
    Event(String),
    /// The process did it.
    Process(u32),
    /// The thread did it.
    Thread(u32, u32),
    Cpu(u32),
    /// Either event of a pair.
    Pair(String, String),
    Times(RangeInclusive<u64>),
    /// Filter of the command line, or of an expression.
    Filter(Box<Filter>),
    /// A system call, by the name that is shown.
    Call(String),
    /// The values of expressions.
    Keys(Box<Keys>, Vec<String>),
    /// A way through the stack.
    Chain(Chain),
    /// The record's lines have a text, in whatever case.
    Text(String),
}

/// Functions that follow each other in a stack, below the outermost call of the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The command.
    pub(crate) command: Frame,
    /// The first function, and those that follow it: what it called, or what called it.
    pub(crate) frames: Vec<Frame>,
    /// Which way they follow.
    pub(crate) direction: Direction,
}

/// The conditions of a level, taken together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    conditions: Vec<Condition>,
    signatures: Signatures,
}

impl Condition {
    fn new(label: impl Into<String>, kind: ConditionKind) -> Self {
        Self {
            label: shown(&label.into()).into_owned(),
            kind,
        }
    }

    /// Records of an event.
    pub(crate) fn event(name: &str) -> Self {
        Self::new(name, ConditionKind::Event(name.to_owned()))
    }

    /// Scope of a process.
    pub(crate) fn process(name: &str, pid: u32) -> Self {
        Self::new(format!("process {name}"), ConditionKind::Process(pid))
    }

    /// Scope of a thread of a process.
    pub(crate) fn thread(name: &str, pid: u32, tid: u32) -> Self {
        Self::new(format!("thread {name}"), ConditionKind::Thread(pid, tid))
    }

    /// Scope of a CPU.
    pub(crate) fn cpu(cpu: u32) -> Self {
        Self::new(format!("CPU {cpu}"), ConditionKind::Cpu(cpu))
    }

    /// Records of two events.
    pub(crate) fn pair(begin: &str, end: &str) -> Self {
        Self::new(
            format!("{begin} to {end}"),
            ConditionKind::Pair(begin.to_owned(), end.to_owned()),
        )
    }

    /// Scope of a range of times, with its words.
    pub(crate) fn times(label: String, times: RangeInclusive<u64>) -> Self {
        Self::new(label, ConditionKind::Times(times))
    }

    /// Records of which a predicate of the event language holds.
    ///
    /// # Errors
    /// When it means nothing at any of the events.
    pub(crate) fn predicate(text: &str, trace: &Trace) -> Result<Self, Error> {
        let wanted = Criteria {
            predicate: Some(text.to_owned()),
            ..Criteria::default()
        };
        let clocks = kestrel_query::Clocks::here(0, 0);
        let filter = Filter::new(&wanted, &trace.reader.info().events, &clocks)?;
        Ok(Self::new(text, ConditionKind::Filter(Box::new(filter))))
    }

    /// Scope that the command line asks for.
    pub(crate) fn asked(filter: Filter) -> Self {
        Self::new("as asked", ConditionKind::Filter(Box::new(filter)))
    }

    /// Entries and returns of a system call.
    pub(crate) fn call(name: &str) -> Self {
        Self::new(name, ConditionKind::Call(name.to_owned()))
    }

    /// Records in whose group these are the values.
    pub(crate) fn keys(keys: Keys, values: Vec<String>) -> Self {
        let label = format!("{} = {}", keys.names().join(","), values.join(","));
        Self::new(label, ConditionKind::Keys(Box::new(keys), values))
    }

    /// Records whose stack goes this way.
    pub(crate) fn chain(chain: Chain) -> Self {
        let names: Vec<String> = chain.frames.iter().map(Frame::folded).collect();
        let arrow = match chain.direction {
            Direction::Caller => " > ",
            Direction::Callee => " < ",
        };
        let label = format!("{}: {}", chain.command.name, names.join(arrow));
        Self::new(label, ConditionKind::Chain(chain))
    }

    /// Records whose lines have a text.
    pub(crate) fn text(text: &str) -> Self {
        Self::new(format!("\"{text}\""), ConditionKind::Text(text.to_lowercase()))
    }
}

impl Scope {
    /// The whole recording; `signatures` are its system calls.
    pub(crate) fn new(signatures: Signatures) -> Self {
        Self {
            conditions: Vec::new(),
            signatures,
        }
    }

    /// The records of this scope of which a condition holds, too.
    pub(crate) fn and(&self, condition: Condition) -> Self {
        let mut scope = self.clone();
        scope.conditions.push(condition);
        scope
    }

    /// The words for its conditions.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.conditions.iter().map(|condition| condition.label.as_str())
    }

    /// The times out of which nothing is looked at.
    pub(crate) fn times(&self) -> RangeInclusive<u64> {
        self.conditions
            .iter()
            .fold(0..=u64::MAX, |all, condition| match &condition.kind {
                ConditionKind::Times(times) => within(&all, times),
                ConditionKind::Filter(filter) => within(&all, &filter.times()),
                _ => all,
            })
    }

    /// Judge of records in one pass over a trace.
    pub(crate) fn judge(&self, trace: &Trace, begin_ns: u64) -> Judge {
        let has = |kind: fn(&ConditionKind) -> bool| self.conditions.iter().any(|it| kind(&it.kind));
        let processes = || trace.processes.clone();
        let (symbols, style) = (|| trace.symbols.clone(), Style::default());
        Judge {
            background: Background::new(processes(), begin_ns).with_tasks(trace.tasks.clone()),
            follows_names: has(|kind| matches!(kind, ConditionKind::Filter(_) | ConditionKind::Keys(..))),
            stacks: has(|kind| matches!(kind, ConditionKind::Chain(_)))
                .then(|| Stacks::new(symbols(), processes(), Weight::Records)),
            ways: vec![Vec::new(); self.conditions.len()],
            calls: CallReader::new(self.signatures.clone()),
            text: has(|kind| matches!(kind, ConditionKind::Text(_)))
                .then(|| Text::new(style, symbols(), processes())),
            line: Vec::new(),
            scope: self.clone(),
        }
    }
}

fn within(all: &RangeInclusive<u64>, times: &RangeInclusive<u64>) -> RangeInclusive<u64> {
    *all.start().max(times.start())..=*all.end().min(times.end())
}

/// Decides record by record, for every record of a trace in order.
#[derive(Debug)]
pub(crate) struct Judge {
    scope: Scope,
    /// Names of threads at the time of the record at hand.
    pub(crate) background: Background,
    follows_names: bool,
    stacks: Option<Stacks>,
    /// By condition and node of the tree of stacks: whether its way is the chain's, once that was asked.
    ways: Vec<Vec<Option<bool>>>,
    calls: CallReader,
    text: Option<Text>,
    line: Vec<u8>,
}

impl Judge {
    /// Follows names of threads from now on, for answers that are made in the background.
    pub(crate) fn follow_names(&mut self) {
        self.follows_names = true;
    }

    /// Whether fields of records are of no interest to it.
    pub(crate) fn knows_by_heads(&self) -> bool {
        let by_head = |kind: &ConditionKind| match kind {
            ConditionKind::Event(_)
            | ConditionKind::Process(_)
            | ConditionKind::Thread(..)
            | ConditionKind::Cpu(_)
            | ConditionKind::Pair(..)
            | ConditionKind::Times(_) => true,
            ConditionKind::Filter(_)
            | ConditionKind::Keys(..)
            | ConditionKind::Call(_)
            | ConditionKind::Chain(_)
            | ConditionKind::Text(_) => false,
        };
        !self.follows_names
            && self
                .scope
                .conditions
                .iter()
                .all(|condition| by_head(&condition.kind))
    }

    /// Whether a record is looked at. What is cheap to ask is asked first.
    pub(crate) fn wants(&mut self, record: &Record<'_>) -> bool {
        if self.follows_names {
            self.background.learn(record);
        }
        if let Some(text) = &mut self.text {
            text.learn(record);
        }
        let background = &self.background;
        let mut costly = false;
        for condition in &self.scope.conditions {
            let holds = match &condition.kind {
                ConditionKind::Event(name) => record.event.name == *name,
                ConditionKind::Process(pid) => record.pid == *pid,
                ConditionKind::Thread(pid, tid) => (record.pid, record.tid) == (*pid, *tid),
                ConditionKind::Cpu(cpu) => record.cpu == *cpu,
                ConditionKind::Pair(begin, end) => [begin, end].contains(&&record.event.name),
                ConditionKind::Times(times) => times.contains(&record.time_ns),
                ConditionKind::Filter(filter) => filter.wants(record, background),
                ConditionKind::Keys(keys, values) => keys.shown(record, background) == *values,
                ConditionKind::Call(_) | ConditionKind::Chain(_) | ConditionKind::Text(_) => {
                    costly = true;
                    true
                }
            };
            if !holds {
                if let Some(stacks) = &mut self.stacks {
                    stacks.pass(record);
                }
                return false;
            }
        }
        !costly || self.wants_costly(record)
    }

    fn wants_costly(&mut self, record: &Record<'_>) -> bool {
        let Self {
            scope,
            stacks,
            ways,
            calls,
            text,
            line,
            ..
        } = self;
        let node = stacks.as_mut().and_then(|stacks| stacks.node(record));
        let mut conditions = scope.conditions.iter().zip(ways);
        conditions.all(|(condition, ways)| match &condition.kind {
            ConditionKind::Call(name) => is_call(calls, record, name),
            ConditionKind::Chain(chain) => match (stacks.as_ref(), node) {
                (Some(stacks), Some(node)) => {
                    let place = node as usize;
                    ways.resize(ways.len().max(place + 1), None);
                    *ways[place].get_or_insert_with(|| chain.is_way_to(stacks, node))
                }
                _ => false,
            },
            ConditionKind::Text(wanted) => {
                line.clear();
                if let Some(text) = text {
                    text.record(record, line);
                }
                String::from_utf8_lossy(line).to_lowercase().contains(wanted)
            }
            _ => true,
        })
    }
}

fn is_call(calls: &mut CallReader, record: &Record<'_>, name: &str) -> bool {
    if !CallReader::is_of_calls(record.event) {
        return false;
    }
    let moment = calls.read(record);
    moment.is_some_and(|moment| moment.signature().shown() == name)
}

impl Chain {
    /// Whether the way to a node of the stacks so far goes through these functions.
    fn is_way_to(&self, stacks: &Stacks, node: u32) -> bool {
        let tree = stacks.tree();
        let path = tree.path(node);
        let frame = |place: usize| {
            path.get(place)
                .map(|node| tree.frame_of(&tree.nodes()[*node as usize]))
        };
        if frame(0) != Some(&self.command) {
            return false;
        }
        let Some(first) = (1..path.len()).find(|place| frame(*place) == self.frames.first()) else {
            return false;
        };
        self.frames.iter().enumerate().all(|(step, wanted)| {
            let place = match self.direction {
                Direction::Caller => Some(first + step),
                // Above the outermost function is the command.
                Direction::Callee => first.checked_sub(step).filter(|place| *place > 0),
            };
            place.and_then(frame) == Some(wanted)
        })
    }
}

/// The words for a range of times, counted from the trace's begin.
pub(crate) fn range_label(times: &RangeInclusive<u64>, begin_ns: u64) -> String {
    let seconds = |ns: u64| {
        let ns = ns.saturating_sub(begin_ns);
        format!(
            "{}.{:06}",
            thousands(ns / 1_000_000_000),
            ns % 1_000_000_000 / 1000
        )
    };
    format!("{} to {} s", seconds(*times.start()), seconds(*times.end()))
}

/// Whether a trace has an event with call stacks.
pub(crate) fn has_stacks(events: &[EventClass]) -> bool {
    let mut fields = events.iter().flat_map(|event| event.layout.fields());
    fields.any(|field| field.ty.is_stack())
}

/// Whether a trace has records of system calls.
pub(crate) fn has_calls(events: &[EventClass]) -> bool {
    events.iter().any(CallReader::is_of_calls)
}
