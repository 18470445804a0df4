//! Names of threads as their calls change them: a program that is executed, `prctl(PR_SET_NAME)`, and births of processes, at which the name is the parent's.
//! Recordings of all calls have no other event of a thread's change of name.
//!
//! Threads whose renames are not seen here keep the name that the recording has, which is their last one: threads that another thread names (`pthread_setname_np`), threads of the
//! kernel and of io_uring, programs whose path was cut or is a descriptor.

use super::moment::{COMPAT_ID, FORK, ID, MEMORY, RAW_ENTER, RAW_EXIT, TEXT};
use super::signature::{Abi, Signatures};
use crate::event::EventClass;
use crate::layout::Field;
use crate::process::{Name, Processes};
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
    /// Names that threads take when the call that they are in has succeeded; none where the call does not tell it. An execution ends in the process's first thread.
    pending: HashMap<(Call, u32), Option<Vec<u8>>, RandomState>,
    /// Children that have made no record yet, and their parents' names.
    born: HashMap<u32, Name, RandomState>,
    /// The last names of threads that had others before.
    last: HashMap<u32, Name, RandomState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
/// Most calls that have begun and not ended; with more all are forgotten. Also most children that have made no record yet.
const MAX_PENDING: usize = 1 << 12;
/// The kernel's thread that all others of its are children of: it names them.
const KTHREADD: u32 = 2;

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

    /// Learns from a record into `processes`.
    #[inline]
    pub fn learn(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let id = usize::from(record.event.id.0);
        let event = match self.events.get(id) {
            Some(Some((identity, event))) if *identity == record.event.layout.identity() => *event,
            _ => self.prepare(record.event),
        };
        if !self.born.is_empty()
            && let Some(name) = self.born.remove(&record.tid)
            && record.pid == record.tid
        {
            self.rename(record.tid, name, processes);
        }
        match event {
            Event::Other => {}
            Event::Birth { child } => {
                let child = number_at(record, child).unwrap_or(0) as u32;
                let name = processes.known(record.tid, record.pid).cloned();
                if let (Some(name), 1..) = (name, child)
                    && record.pid != KTHREADD
                {
                    if self.born.len() >= MAX_PENDING {
                        self.born.clear();
                    }
                    self.born.insert(child, name);
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
        let value = |place: Option<usize>| Some(record.value(record.event.layout.fields().get(place?)?));
        let bytes = |place| match value(place) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let name = match call {
            // As `begin_new_exec` in fs/exec.c. The last part of a path that was cut is not its file.
            Call::Execute => bytes(text).and_then(|path| path.rsplit(|byte| *byte == b'/').next()),
            Call::SetName if first.and_then(|first| number_at(record, first)) == Some(PR_SET_NAME) => {
                let memory = || match value(memory) {
                    Some(Value::Text(text) | Value::CutText(text)) => Some(text),
                    _ => None,
                };
                let text = bytes(second).or_else(memory);
                text.and_then(|text| text.split(|byte| *byte == 0).next())
            }
            Call::SetName => return drop(self.pending.remove(&key(record, call))),
        };
        if self.pending.len() >= MAX_PENDING {
            self.pending.clear();
        }
        let name = name.filter(|name| !name.is_empty());
        let name = name.map(|name| name[..name.len().min(MAX)].to_vec());
        self.pending.insert(key(record, call), name);
    }

    fn leave(&mut self, record: &Record<'_>, (call, returned): (Call, usize), processes: &mut Processes) {
        let Some(name) = self.pending.remove(&key(record, call)) else {
            return;
        };
        if number_at(record, returned) != Some(0) {
            return;
        }
        match name {
            Some(name) => self.rename(record.tid, name[..].into(), processes),
            None => {
                if let Some(last) = self.last.get(&record.tid) {
                    processes.insert(record.tid, last.clone());
                }
            }
        }
    }

    fn rename(&mut self, tid: u32, name: Name, processes: &mut Processes) {
        if let Some(last) = processes.known(tid, tid) {
            self.last.entry(tid).or_insert_with(|| last.clone());
        }
        processes.insert(tid, name);
    }
}

/// The call and whom it renames: another thread than the one that called may have the process's number after an execution.
fn key(record: &Record<'_>, call: Call) -> (Call, u32) {
    match call {
        Call::Execute => (call, record.pid),
        Call::SetName => (call, record.tid),
    }
}

/// A number, or the first of an array of numbers.
fn number_at(record: &Record<'_>, place: usize) -> Option<u64> {
    match record.value(record.event.layout.fields().get(place)?) {
        Value::Array(values) => values.iter().next()?.as_u64(),
        value => value.as_u64(),
    }
}
