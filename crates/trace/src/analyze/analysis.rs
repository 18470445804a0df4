//! Interface of an analysis that is answered by a table of counts, and its row in the table of analyses.

use super::count::Count;
use crate::process::Processes;
use crate::record::Record;

/// A question that is answered by a table of counts.
pub trait Analysis: std::fmt::Debug {
    /// Adds a record.
    fn add(&mut self, record: &Record<'_>);

    /// Takes names of threads from a record that is not counted.
    fn learn(&mut self, _record: &Record<'_>) {}

    /// Ends the analysis and gives its counts.
    fn finish(self: Box<Self>) -> Vec<Count>;
}

/// A row of the table of analyses.
#[derive(Clone, Copy, Debug)]
pub struct AnalysisKind {
    /// The name in JSON and as an option's value.
    pub name: &'static str,
    /// The heading of its table.
    pub title: &'static str,
    /// Description of the table, in a sentence without a full stop.
    pub about: &'static str,
    /// Whether every report has it.
    pub usual: bool,
    /// Makes it; some names of threads are known.
    pub new: fn(&Processes) -> Box<dyn Analysis>,
}
