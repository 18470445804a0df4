//! Interface of a record format, and its row in the table of formats.

use super::clock::Times;
use crate::event::EventClass;
use crate::process::Processes;
use crate::record::Record;
use crate::symbol::Symbols;

/// The kind of event whose records read like the call in C.
pub const CALLS: &str = "jprobe";

/// Style of printed records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Times with 9 decimals instead of 6.
    pub nanoseconds: bool,
    /// What times are counted from, in all formats.
    pub times: Times,
}

/// A format in which records are written out.
pub trait Export {
    /// Appends what stands before the first record; `events` may come.
    fn begin(&mut self, _events: &[&EventClass], _out: &mut Vec<u8>) {}

    /// Appends one record.
    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>);

    /// Takes names of threads from a record that is not written.
    fn learn(&mut self, record: &Record<'_>);

    /// Appends what stands behind the last record.
    fn finish(&mut self, _out: &mut Vec<u8>) {}

    /// The names of threads, for callers that know more names than the records hold.
    fn processes_mut(&mut self) -> &mut Processes;

    /// The names of addresses, for callers that find more while records come.
    fn symbols_mut(&mut self) -> &mut Symbols;
}

/// A row of the table of formats.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The name, as an option's value.
    pub name: &'static str,
    /// What it is, in a sentence without a full stop.
    pub about: &'static str,
    /// Makes it, with the symbols of the kernel and the names of threads that are known.
    pub new: fn(Style, Symbols, Processes) -> Box<dyn Export>,
}
