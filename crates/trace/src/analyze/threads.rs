//! Records by thread.

use super::analysis::{Analysis, AnalysisKind};
use super::count::{Count, largest_first};
use super::tally::Tally;
use crate::process::{Learner, Processes};
use crate::record::Record;

pub(super) const KIND: AnalysisKind = AnalysisKind {
    name: "threads",
    title: "threads",
    about: "records by thread, with the process of each",
    usual: false,
    new: |names| {
        Box::new(Threads {
            names: names.clone(),
            ..Threads::default()
        })
    },
};

/// Counts by thread, whose names it learns from the records too.
#[derive(Clone, Debug, Default)]
struct Threads {
    /// By process and thread.
    counts: Tally<(u32, u32)>,
    names: Processes,
    learner: Learner,
}

impl Analysis for Threads {
    fn add(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.names);
        self.counts.add((record.pid, record.tid), record.tid);
    }

    fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.names);
    }

    /// `comm-tid (pid)`, the largest first; of the idle tasks, which all have the number 0, one row.
    fn finish(self: Box<Self>) -> Vec<Count> {
        let names = self.names;
        let row = |((pid, tid), count): ((u32, u32), u64)| {
            let name = names.name(tid, pid).unwrap_or("<...>");
            Count {
                name: format!("{name}-{tid} ({pid})"),
                count,
            }
        };
        largest_first(self.counts.finish().into_iter().map(row).collect())
    }
}
