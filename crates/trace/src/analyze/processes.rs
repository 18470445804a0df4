//! The analysis `processes`: records counted by process.

use super::analysis::{Analysis, AnalysisKind};
use super::count::{Count, largest_first};
use super::tally::Tally;
use crate::process::{Learner, Processes};
use crate::record::Record;

pub(super) const KIND: AnalysisKind = AnalysisKind {
    name: "processes",
    title: "processes",
    about: "records by process",
    usual: true,
    new: |names| {
        Box::new(ProcessCounts {
            names: names.clone(),
            ..ProcessCounts::default()
        })
    },
};

/// Counts by process, whose names it learns from the records too.
#[derive(Clone, Debug, Default)]
struct ProcessCounts {
    counts: Tally<u32>,
    names: Processes,
    learner: Learner,
}

impl Analysis for ProcessCounts {
    fn add(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.names);
        self.counts.add(record.pid, record.pid);
    }

    fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.names);
    }

    /// `comm-pid`, the largest first.
    fn finish(self: Box<Self>) -> Vec<Count> {
        let names = self.names;
        let rows = self.counts.finish().into_iter().map(|(pid, count)| Count {
            name: format!("{}-{pid}", names.name(pid, pid).unwrap_or("<...>")),
            count,
        });
        largest_first(rows.collect())
    }
}
