//! Interface of a conversion to another tool's file, and its row in the table of formats.

use super::place::OutputPath;
use crate::calls::Kept;
use crate::error::Result;
use crate::info::TraceInfo;
use crate::process::Processes;
use crate::record::Record;
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;

/// A format of another tool: name, help, usual file name, constructor.
#[derive(Clone, Copy, Debug)]
pub struct ConversionFormat {
    /// The name, as an option's value.
    pub name: &'static str,
    /// A description, a sentence without a full stop.
    pub about: &'static str,
    /// The file's usual name.
    pub file: &'static str,
    /// Begins to write it.
    pub begin: fn(RecordingContext, OutputPath) -> Result<Box<dyn Conversion>>,
}

/// Data of a recording beside its records: what an exporter names addresses and threads by.
#[derive(Clone, Debug, Default)]
pub struct RecordingContext {
    /// Description of the trace.
    pub info: TraceInfo,
    /// Names of addresses.
    pub symbols: Symbols,
    /// Names of threads.
    pub processes: Processes,
    /// Which processes threads belong to.
    pub tasks: Tasks,
    /// Frames found in copies of stacks.
    pub unwound: Unwound,
    /// Counts of its recorder.
    pub summary: Option<Summary>,
    /// Side file of a recording of system calls: signatures, the set asked for, descriptors open at its start.
    pub calls: Option<Kept>,
}

/// A writer of another tool's file; dropped before [`finish`](Self::finish), it removes what it wrote.
pub trait Conversion {
    /// Writes one record; of equal or later time than the one before.
    ///
    /// # Errors
    /// Errors of writing.
    fn record(&mut self, record: &Record<'_>) -> Result<()>;

    /// Learns the names of threads from a record that is not exported.
    fn learn_thread_names(&mut self, record: &Record<'_>);

    /// Notes that so many events of a CPU were lost behind the record before. Formats without a place for that leave it out: what was lost is printed, too.
    ///
    /// # Errors
    /// Errors of writing.
    fn lost(&mut self, _cpu: u32, _events: u64) -> Result<()> {
        Ok(())
    }

    /// How many of the records so far are not in the file, as a format of stacks alone leaves out those without one.
    fn left_out(&self) -> u64 {
        0
    }

    /// Writes what stands at the end, and gives the file its name.
    ///
    /// # Errors
    /// Errors of writing.
    fn finish(self: Box<Self>) -> Result<()>;
}
