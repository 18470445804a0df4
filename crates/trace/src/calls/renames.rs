//! Names of threads as their calls change them: a program that is executed, `prctl(PR_SET_NAME)`, and births, at which the name is the parent's. Recordings of all
//! calls have no other event that tells when a thread's name became another.

use super::moment::{COMPAT_ID, FORK, ID, MEMORY, RAW_ENTER, RAW_EXIT, TEXT};
use super::signature::{Abi, Signatures};
use crate::event::EventClass;
use crate::layout::Field;
use crate::process::Processes;
use crate::record::Record;
use crate::value::Value;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Learns names of threads from the calls that change them.
#[derive(Clone, Debug, Default)]
pub struct Renames {
    /// The calls that rename, by their numbers.
    calls: Vec<(Abi, u64, Call)>,
    /// By event number: the layout's identity, and what its records are.
    events: Vec<Option<(u64, Event)>>,
    /// Names that processes take when the call that they are in has succeeded: an execution ends in the process's first thread.
    pending: HashMap<u32, (Call, Vec<u8>), RandomState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Execute,
    SetName,
}

/// Records of an event; numbers are places of fields.
#[derive(Clone, Copy, Debug)]
enum Event {
    Entry {
        number: Number,
        /// The call's first argument, or all of them.
        first: Option<usize>,
        text: Option<usize>,
        second: Option<usize>,
        memory: Option<usize>,
    },
    Return {
        number: Number,
        returned: usize,
    },
    Birth {
        child: usize,
    },
    Other,
}

/// How the call of a record is known.
#[derive(Clone, Copy, Debug)]
enum Number {
    Field(Abi, usize),
    Known(Call),
}

/// `PR_SET_NAME` of prctl(2).
const PR_SET_NAME: u64 = 15;
/// Most bytes of a name.
const MAX: usize = 15;
/// Most calls that have begun and not ended; with more all are forgotten.
const MAX_PENDING: usize = 1 << 12;

impl Call {
    fn of(name: &str) -> Option<Self> {
        match name {
            "execve" | "execveat" => Some(Self::Execute),
            "prctl" => Some(Self::SetName),
            _ => None,
        }
    }
}

impl Event {
    fn of(event: &EventClass) -> Self {
        let fields = event.layout.fields();
        let find = |name: &str| fields.iter().position(|field: &Field| field.name == name);
        let number = || {
            let native = find(ID).map(|place| Number::Field(Abi::Native, place));
            native.or_else(|| Some(Number::Field(Abi::Compat, find(COMPAT_ID)?)))
        };
        let own = |prefix: &str| Call::of(event.name.strip_prefix(prefix)?).map(Number::Known);
        let is_of = |raw: &str, prefix: &str| match event.name == raw {
            true => number(),
            false => own(prefix),
        };
        if let Some(number) = is_of(RAW_ENTER, "syscalls:sys_enter_") {
            return Self::Entry {
                number,
                first: find("args").or_else(|| find("arg0")).or_else(|| find("option")),
                text: find(&format!("{TEXT}0")).or_else(|| find("filename")),
                second: find(&format!("{TEXT}1")),
                memory: find(&format!("{MEMORY}1")),
            };
        }
        match (
            is_of(RAW_EXIT, "syscalls:sys_exit_"),
            find("ret"),
            find("child_pid"),
        ) {
            (Some(number), Some(returned), _) => Self::Return { number, returned },
            // Where the child's name is there, too, it is learned from that.
            (_, _, Some(child)) if event.name == FORK && find("child_comm").is_none() => {
                Self::Birth { child }
            }
            _ => Self::Other,
        }
    }
}

impl Renames {
    /// For a recording with these calls.
    pub fn new(signatures: &Signatures) -> Self {
        let calls = signatures.iter().filter_map(|(number, signature)| {
            let call = Call::of(signature.own_name())?;
            Some((signature.abi, number, call))
        });
        Self {
            calls: calls.collect(),
            ..Self::default()
        }
    }

    /// Takes what a record tells into `processes`.
    #[inline]
    pub fn learn(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let id = usize::from(record.event.id.0);
        let event = match self.events.get(id) {
            Some(Some((identity, event))) if *identity == record.event.layout.identity() => *event,
            _ => self.prepare(record.event),
        };
        match event {
            Event::Other => {}
            Event::Birth { child } => {
                let child = number_at(record, child).unwrap_or(0) as u32;
                let name = processes.name(record.tid, record.pid).map(str::to_owned);
                if let (Some(name), 1..) = (name, child) {
                    processes.insert(child, name);
                }
            }
            Event::Entry { number, .. } => {
                if let Some(call) = self.call(record, number) {
                    self.enter(record, call, event);
                }
            }
            Event::Return { number, returned } => {
                if let Some(call) = self.call(record, number) {
                    self.leave(record, (call, returned), processes);
                }
            }
        }
    }

    #[cold]
    fn prepare(&mut self, event: &EventClass) -> Event {
        let id = usize::from(event.id.0);
        if self.events.len() <= id {
            self.events.resize(id + 1, None);
        }
        let found = Event::of(event);
        self.events[id] = Some((event.layout.identity(), found));
        found
    }

    fn call(&self, record: &Record<'_>, number: Number) -> Option<Call> {
        match number {
            Number::Known(call) => Some(call),
            Number::Field(abi, place) => {
                let number = number_at(record, place)?;
                let mut calls = self.calls.iter();
                calls
                    .find(|(own, known, _)| *own == abi && *known == number)
                    .map(|(.., call)| *call)
            }
        }
    }

    fn enter(&mut self, record: &Record<'_>, call: Call, event: Event) {
        let Event::Entry {
            first,
            text,
            second,
            memory,
            ..
        } = event
        else {
            return;
        };
        let bytes = |place: Option<usize>| match record.value(record.event.layout.fields().get(place?)?) {
            Value::Text(text) | Value::CutText(text) if !text.is_empty() => Some(text),
            _ => None,
        };
        let name = match call {
            // As `begin_new_exec` in fs/exec.c.
            Call::Execute => bytes(text).and_then(|path| path.rsplit(|byte| *byte == b'/').next()),
            Call::SetName if first.and_then(|first| number_at(record, first)) == Some(PR_SET_NAME) => {
                let text = bytes(second).or_else(|| bytes(memory));
                text.and_then(|text| text.split(|byte| *byte == 0).next())
            }
            Call::SetName => None,
        };
        match name.filter(|name| !name.is_empty()) {
            Some(name) => {
                if self.pending.len() >= MAX_PENDING {
                    self.pending.clear();
                }
                let name = name[..name.len().min(MAX)].to_vec();
                self.pending.insert(key(record, call), (call, name));
            }
            None => drop(self.pending.remove(&key(record, call))),
        }
    }

    fn leave(&mut self, record: &Record<'_>, (call, returned): (Call, usize), processes: &mut Processes) {
        let Some((entered, name)) = self.pending.remove(&key(record, call)) else {
            return;
        };
        if entered == call && number_at(record, returned) == Some(0) {
            processes.insert(record.tid, String::from_utf8_lossy(&name));
        }
    }
}

/// Who is renamed: another thread than the one that called may have the process's number after an execution.
fn key(record: &Record<'_>, call: Call) -> u32 {
    match call {
        Call::Execute => record.pid,
        Call::SetName => record.tid,
    }
}

/// A number, or the first of an array of numbers.
fn number_at(record: &Record<'_>, place: usize) -> Option<u64> {
    match record.value(record.event.layout.fields().get(place)?) {
        Value::Array(values) => values.iter().next()?.as_u64(),
        value => value.as_u64(),
    }
}
