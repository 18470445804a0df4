//! A record as a moment of a system call: its entry or its return, by whatever event it was recorded.

use super::pieces::Pieces;
use super::signature::{Abi, Signature, Signatures, is_argument};
use crate::event::EventClass;
use crate::record::Record;
use crate::value::{KeptStack, Value};
use std::sync::Arc;

/// The tracepoint of all entries.
pub const RAW_ENTER: &str = "raw_syscalls:sys_enter";
/// The tracepoint of all returns.
pub const RAW_EXIT: &str = "raw_syscalls:sys_exit";
/// Event that says which process descends from which: those that are recorded beside calls have the child's number alone.
pub const FORK: &str = "sched:sched_process_fork";
/// Event that says that a thread is gone: those that are recorded beside calls have its number, and [`EXIT_CODE`].
pub const EXIT: &str = "sched:sched_process_exit";
/// The event of signals that a thread takes: those that are recorded beside calls have its number `sig`, and [`INFORMATION`].
pub const SIGNAL: &str = "rawtracepoint:signal_deliver";
/// The field with the signal's `siginfo_t`.
pub const INFORMATION: &str = "info";
/// Bytes of that that are recorded: all members but those of new hardware.
pub const INFORMATION_BYTES: u32 = 48;
/// The field of [`EXIT`] with what wait(2) would say of the thread.
pub const EXIT_CODE: &str = "exit_code";
/// The field that holds a call's number.
pub const ID: &str = "id";
/// The field with the number of a call that was made through the interface of 32-bit programs.
pub const COMPAT_ID: &str = "id32";
/// Before the place of an argument, the name of the field with its register, of calls of 32-bit programs.
pub const REGISTER: &str = "arg";
/// Before the place of an argument, the name of the field with the text that the argument pointed to.
pub const TEXT: &str = "text";
/// Before the place of an argument, the name of the field with the memory that it points to; behind `_`, the number of a pointer in that memory.
pub const MEMORY: &str = "mem";
/// Most bytes of a text in such a field.
pub const EXIT_TEXT: usize = 255;

/// The register of an argument whose text was recorded in its place (`record(str(args.filename))`, LTTng): not NULL, and no more is known.
const SOMEWHERE: u64 = u64::MAX;

/// A record as a moment of a call: entry, return, or neither.
#[derive(Clone, Debug)]
pub enum Moment {
    /// Entry of a system call.
    Entry {
        /// The call's signature.
        signature: Arc<Signature>,
        /// The arguments' registers; as many as are known.
        values: Vec<u64>,
        /// Memory that arguments pointed to, where it was read.
        pieces: Pieces,
        /// The stacks of the record.
        stacks: Vec<KeptStack>,
    },
    /// Return of a system call.
    Return {
        /// The call's signature.
        signature: Arc<Signature>,
        /// The return value.
        value: i64,
        /// Memory that arguments point to now.
        pieces: Pieces,
    },
}

impl Moment {
    /// The call's signature.
    pub fn signature(&self) -> &Signature {
        match self {
            Self::Entry { signature, .. } | Self::Return { signature, .. } => signature,
        }
    }
}

/// Kind of an event's records, by its name.
#[derive(Clone, Debug)]
enum Event {
    RawEntry,
    RawReturn,
    Entry(Arc<Signature>),
    Return(Arc<Signature>),
    Other,
}

/// Reads records as moments of calls.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    signatures: Signatures,
    /// By event number: the event's name, and what it is.
    events: Vec<Option<(String, Event)>>,
}

impl Reader {
    /// A pairing that knows these calls by their numbers; calls with events of their own say themselves what they are.
    pub fn new(signatures: Signatures) -> Self {
        Self {
            signatures,
            events: Vec::new(),
        }
    }

    /// The signature of the call with a number.
    pub fn signature(&mut self, abi: Abi, number: u64) -> Arc<Signature> {
        self.signatures.get(abi, number)
    }

    /// Whether records of an event are moments of calls.
    pub fn is_of_calls(event: &EventClass) -> bool {
        !matches!(Event::of(event), Event::Other)
    }

    /// The moment that a record is of.
    pub fn read(&mut self, record: &Record<'_>) -> Option<Moment> {
        let event = self.event(record.event);
        let number = || match record.get(ID).and_then(|id| id.as_u64()) {
            Some(number) => Some((Abi::Native, number)),
            None => Some((Abi::Compat, record.get(COMPAT_ID)?.as_u64()?)),
        };
        let mut signature = || number().map(|(abi, number)| self.signatures.get(abi, number));
        let returned = || record.get("ret").and_then(|value| value.as_i64());
        Some(match event {
            Event::RawEntry => {
                let signature = signature()?;
                Moment::Entry {
                    values: registers(record),
                    pieces: pieces(record).shifted(signature.before_program()),
                    signature,
                    stacks: stacks(record),
                }
            }
            Event::RawReturn => {
                let signature = signature()?;
                Moment::Return {
                    value: returned()?,
                    pieces: pieces(record).shifted(signature.before_program()),
                    signature,
                }
            }
            Event::Entry(signature) => {
                let fields = record.fields().filter(|(field, _)| is_argument(field));
                Moment::Entry {
                    values: fields
                        .map(|(_, value)| match value {
                            // Handlers have recorded the string in the place of its address.
                            Value::Text(_) => SOMEWHERE,
                            value => value.as_u64().unwrap_or_default(),
                        })
                        .collect(),
                    pieces: written(record, &signature),
                    signature,
                    stacks: stacks(record),
                }
            }
            Event::Return(signature) => Moment::Return {
                signature,
                value: returned()?,
                pieces: Pieces::default(),
            },
            Event::Other => return None,
        })
    }

    fn event(&mut self, event: &EventClass) -> Event {
        let id = usize::from(event.id.0);
        if self.events.len() <= id {
            self.events.resize(id + 1, None);
        }
        match &self.events[id] {
            Some((name, known)) if *name == event.name => known.clone(),
            _ => {
                let found = Event::of(event);
                self.events[id] = Some((event.name.clone(), found.clone()));
                found
            }
        }
    }
}

impl Event {
    fn of(event: &EventClass) -> Self {
        let name = event.name.as_str();
        if name == RAW_ENTER {
            return Self::RawEntry;
        }
        if name == RAW_EXIT {
            return Self::RawReturn;
        }
        let signature = |call: &str| Arc::new(Signature::of_event(call, event));
        if let Some(call) = name.strip_prefix("syscalls:sys_enter_") {
            return Self::Entry(signature(call));
        }
        match name.strip_prefix("syscalls:sys_exit_") {
            Some(call) => Self::Return(signature(call)),
            None => Self::Other,
        }
    }
}

/// Arguments that a call can have.
const REGISTERS: usize = 6;

/// The stacks that a record has.
fn stacks(record: &Record<'_>) -> Vec<KeptStack> {
    let stacks = record.fields().filter(|(field, _)| field.ty.is_stack());
    stacks
        .map(|(field, value)| KeptStack::new(&field.name, value))
        .collect()
}

fn registers(record: &Record<'_>) -> Vec<u64> {
    match record.get("args") {
        Some(Value::Array(elements)) => elements.iter().filter_map(|value| value.as_u64()).collect(),
        _ => (0..REGISTERS)
            .map_while(|place| record.get(&format!("{REGISTER}{place}"))?.as_u64())
            .collect(),
    }
}

/// Memory in fields that are named by the arguments' places.
fn pieces(record: &Record<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    for (field, value) in record.fields() {
        if let Value::Text(bytes) = value {
            pieces.read(&field.name, bytes);
        }
    }
    pieces
}

/// Strings that a handler recorded under the arguments' own names: `record(str(args.filename))`.
fn written(record: &Record<'_>, signature: &Signature) -> Pieces {
    let mut pieces = Pieces::default();
    for (field, value) in record.fields() {
        if let Value::Text(bytes) = value
            && let Some(place) = signature.parameters.iter().position(|it| it.name == field.name)
        {
            pieces.insert(place, 0, bytes);
        }
    }
    pieces
}
