//! How many records are there of each process?

use super::count::{Count, largest_first};
use crate::process::{Learner, Processes};
use crate::record::Record;
use std::collections::BTreeMap;

/// Counts by process, whose names it learns from the records too.
#[derive(Clone, Debug, Default)]
pub struct ProcessCounts {
    counts: BTreeMap<u32, u64>,
    names: Processes,
    learner: Learner,
}

impl ProcessCounts {
    /// Counts by process, of which some names are known.
    pub fn new(names: Processes) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// Takes a record.
    pub fn add(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.names);
        *self.counts.entry(record.pid).or_default() += 1;
    }

    /// The answer, `comm-pid`, largest first.
    pub fn finish(self) -> Vec<Count> {
        let rows = self.counts.iter().map(|(pid, count)| Count {
            name: format!("{}-{pid}", self.names.name(*pid, *pid).unwrap_or("<...>")),
            count: *count,
        });
        largest_first(rows.collect())
    }
}
