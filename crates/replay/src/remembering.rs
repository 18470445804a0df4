//! Remembering of the memory that records hold, for programs that read some: before each record's handlers run.

use crate::call::{CallPlaces, Side};
use crate::memory_fields::{Entries, MemoryFields};
use crate::recorded::{RecordedMemory, is_kernel};
use kestrel_bpf::helper::{self, Helper};
use kestrel_trace::calls::{Abi, Signatures};
use kestrel_trace::event::EventClass;
use kestrel_trace::record::Record;
use std::ops::Range;

/// The memory that the records of a recording hold, by owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory of processes.
    pub user: bool,
    /// The kernel's.
    pub kernel: bool,
    /// That of processes is what their calls were given.
    pub of_calls: bool,
}

impl Held {
    /// The memory that the records of these events hold at addresses that are known.
    pub fn of(events: &[EventClass]) -> Self {
        let signatures = Signatures::default();
        let fields = events
            .iter()
            .filter_map(|event| MemoryFields::of(event, &signatures));
        fields.fold(Self::default(), |held, fields| Self {
            user: true,
            // An argument of a function may be an address of either.
            kernel: held.kernel || !fields.is_of_calls(),
            of_calls: held.of_calls || fields.is_of_calls(),
        })
    }
}

/// What the records of one event hold.
pub(crate) fn holds(event: &EventClass) -> Held {
    Held::of(std::slice::from_ref(event))
}

/// Reads of memory that was not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Reads of which no byte was.
    pub all: u64,
    /// Reads of which only the beginning was.
    pub part: u64,
}

impl Missing {
    pub(crate) fn add(&mut self, other: Self) {
        self.all += other.all;
        self.part += other.part;
    }
}

/// The memory that was recorded up to now, and who reads it.
#[derive(Debug, Default)]
pub(crate) struct Remembering {
    memory: RecordedMemory,
    entries: Entries,
    signatures: Signatures,
    /// By the number of the event class.
    events: Vec<Remembered>,
    /// Whether returns hold memory, whose addresses are those of the entries.
    at_returns: bool,
    /// The addresses of the record's memory that could not be read then.
    faults: Vec<Range<u64>>,
    ends: Ends,
    /// The process that the last record is the end of: handlers of that record still read its memory.
    gone: Option<u32>,
    pub(crate) missing: Missing,
}

/// The remembered part of an event class.
#[derive(Debug, Default)]
struct Remembered {
    fields: Option<MemoryFields>,
    call: Option<CallPlaces>,
    becomes: Option<Becomes>,
}

/// The change of a process's program where an event without a call's number happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// Another one.
    Other,
    /// Another one, where the call returns 0.
    OtherAtZero,
    /// None, where all of its threads end.
    Gone,
    /// None, where its first thread ends.
    GoneWithFirst,
}

impl Becomes {
    fn of(event: &EventClass) -> Option<Self> {
        let name = event.name.rsplit(':').next().unwrap_or_default();
        Some(match name {
            "sched_process_exec" => Self::Other,
            "sys_exit_execve" | "sys_exit_execveat" => Self::OtherAtZero,
            "sys_enter_exit_group" => Self::Gone,
            "sched_process_exit" => Self::GoneWithFirst,
            _ => return None,
        })
    }
}

/// The calls that change or end programs, by their numbers.
#[derive(Debug, Default)]
struct Ends {
    execs: Vec<(Abi, u64)>,
    exits: Vec<(Abi, u64)>,
    group_exits: Vec<(Abi, u64)>,
}

impl Ends {
    fn of(signatures: &Signatures) -> Self {
        let mut all = Self::default();
        for (number, signature) in signatures.iter() {
            let of = match signature.own_name() {
                "execve" | "execveat" => &mut all.execs,
                "exit" => &mut all.exits,
                "exit_group" => &mut all.group_exits,
                _ => continue,
            };
            of.push((signature.abi, number));
        }
        all
    }
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Whole,
    /// This number of bytes, and no more.
    Part(usize),
    Nothing,
}

/// Addresses below are no memory of a process's (`vm.mmap_min_addr` is 65,536, or 4,096): to read there fails live, too.
const MIN: u64 = 4096;

impl Remembering {
    /// For a recording of these events, with what is known of its system calls.
    pub(crate) fn new(events: &[EventClass], signatures: Signatures) -> Self {
        let mut all = Self {
            ends: Ends::of(&signatures),
            signatures,
            ..Self::default()
        };
        for event in events {
            let number = usize::from(event.id.0);
            if all.events.len() <= number {
                all.events.resize_with(number + 1, Remembered::default);
            }
            let call = CallPlaces::of(event);
            let is_return = call.as_ref().is_some_and(|call| call.side() == Side::Exit);
            let fields = MemoryFields::of(event, &all.signatures);
            all.at_returns |= is_return && fields.is_some();
            all.events[number] = Remembered {
                fields,
                call,
                becomes: Becomes::of(event),
            };
        }
        all
    }

    /// Says up to when records may be missing before the next one.
    pub(crate) fn set_gap(&mut self, gap_ns: u64) {
        self.entries.set_gap(gap_ns);
    }

    /// Number of returns with memory that were not paired with their calls' entries because records may be missing between them.
    pub(crate) fn unpaired(&self) -> u64 {
        self.entries.unpaired()
    }

    /// Keeps what a record holds.
    pub(crate) fn remember(&mut self, record: &Record<'_>) {
        self.faults.clear();
        // With the next record: handlers of the process's last one still read its memory.
        if let Some(process) = self.gone.take() {
            self.memory.renew(process);
        }
        let Some(event) = self.events.get(usize::from(record.event.id.0)) else {
            return;
        };
        match event.becomes {
            Some(Becomes::Other) => self.memory.renew(record.pid),
            Some(Becomes::OtherAtZero) if record.get("ret").and_then(|ret| ret.as_i64()) == Some(0) => {
                self.memory.renew(record.pid);
            }
            Some(Becomes::Gone) => self.gone = Some(record.pid),
            Some(Becomes::GoneWithFirst) => {
                self.entries.remove(record.tid);
                self.gone = (record.pid == record.tid).then_some(record.pid);
            }
            Some(Becomes::OtherAtZero) | None => {}
        }
        let mut entered = None;
        let number = event.call.as_ref().and_then(|call| call.number(record));
        if let (Some(call), Some(number)) = (&event.call, number) {
            let key = (call.abi(), number);
            match call.side() {
                // These calls never return: their entries would wait for ever.
                Side::Entry if self.ends.group_exits.contains(&key) => {
                    self.entries.remove(record.tid);
                    self.gone = Some(record.pid);
                }
                Side::Entry if self.ends.exits.contains(&key) => self.entries.remove(record.tid),
                Side::Entry if self.at_returns => self.entries.enter(record, call),
                Side::Entry => {}
                Side::Exit => {
                    if self.at_returns {
                        let has_memory = || {
                            let fields = event.fields.as_ref();
                            fields.is_some_and(|fields| fields.has_memory(record))
                        };
                        entered = self.entries.leave(record, key, has_memory);
                    }
                    if self.ends.execs.contains(&key) && call.word(record, 0) == Some(0) {
                        self.memory.renew(record.pid);
                    }
                }
            }
        }
        if let Some(fields) = &event.fields {
            fields.remember(
                record,
                &self.signatures,
                entered,
                &mut self.memory,
                &mut self.faults,
            );
        }
    }

    /// Reads memory of a process, or of the kernel, and counts what is not there. Of a number no part is taken.
    pub(crate) fn read(&mut self, reader: Helper, process: u32, address: u64, into: &mut [u8]) -> Found {
        if !reaches(reader, address) {
            return Found::Nothing;
        }
        let known = match self.is_fault(address) {
            true => 0,
            false => self.memory.read(process, address, into),
        };
        if known == into.len() {
            return Found::Whole;
        }
        let known = if into.len() <= 8 { 0 } else { known };
        self.count(address, known)
    }

    /// Reads a text up to its NUL, which is not among the bytes, or to the end of what is known.
    pub(crate) fn text(&mut self, reader: Helper, process: u32, address: u64, into: &mut [u8]) -> Found {
        if !reaches(reader, address) {
            return Found::Nothing;
        }
        let known = match self.is_fault(address) {
            true => 0,
            false => self.memory.read(process, address, into),
        };
        let length = into.iter().take(known).position(|byte| *byte == 0);
        match length {
            Some(length) => Found::Part(length),
            None if known == into.len() => Found::Whole,
            None => self.count(address, known),
        }
    }

    fn is_fault(&self, address: u64) -> bool {
        self.faults.iter().any(|fault| fault.contains(&address))
    }

    fn count(&mut self, address: u64, known: usize) -> Found {
        match known {
            // It failed at the event, as it would have live.
            0 if self.is_fault(address) => Found::Nothing,
            0 => {
                self.missing.all += 1;
                Found::Nothing
            }
            known => {
                self.missing.part += 1;
                Found::Part(known)
            }
        }
    }
}

/// Whether a helper reads memory at such an address.
fn reaches(reader: Helper, address: u64) -> bool {
    let here = match reader {
        helper::PROBE_READ_USER | helper::PROBE_READ_USER_STR => !is_kernel(address),
        helper::PROBE_READ_KERNEL | helper::PROBE_READ_KERNEL_STR => is_kernel(address),
        _ => true,
    };
    here && address >= MIN
}
