//! Interface of a record format, and its row in the table of formats.

use super::clock::Times;
use crate::event::EventClass;
use crate::event_kind;
use crate::process::{Learner, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::KeptStack;

/// The kind of event whose records read like the call in C.
pub const CALLS: &str = event_kind::JPROBE.name;

/// Style of printed records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Times with 9 decimals instead of 6.
    pub nanoseconds: bool,
    /// Start of times, in all formats.
    pub times: Times,
}

/// A format in which records are written out.
pub trait Export {
    /// Appends what stands before the first record; `events` may come.
    fn begin(&mut self, _events: &[&EventClass], _out: &mut Vec<u8>) {}

    /// Appends one record.
    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>);

    /// Appends stacks as this format has them: lines beneath what they are of, or members of an object, each with a comma before it.
    fn stacks(&self, _stacks: &[KeptStack], _out: &mut Vec<u8>) {}

    /// Appends what stands behind the last record.
    fn finish(&mut self, _out: &mut Vec<u8>) {}

    /// The names that it shows, for callers that know more of them than the records hold.
    fn names_mut(&mut self) -> &mut KnownNames;

    /// Takes names of threads from a record that is not written.
    fn learn(&mut self, record: &Record<'_>) {
        self.names_mut().learn(record);
    }
}

/// Names of addresses and of threads, to which records add.
#[derive(Clone, Debug)]
pub struct KnownNames {
    /// The names of addresses.
    pub symbols: Symbols,
    /// The names of threads.
    pub processes: Processes,
    learner: Learner,
}

impl KnownNames {
    pub(super) fn new(symbols: Symbols, processes: Processes) -> Self {
        Self {
            symbols,
            processes,
            learner: Learner::default(),
        }
    }

    /// Takes the names of threads from a record.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
    }
}

/// A row of the table of formats.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The name, as an option's value.
    pub name: &'static str,
    /// A description, a sentence without a full stop.
    pub about: &'static str,
    /// Makes it, with the symbols of the kernel and the names of threads that are known.
    pub new: fn(Style, Symbols, Processes) -> Box<dyn Export>,
}
