//! The analysis `events`: how many records are there of each event?

use super::analysis::{Analysis, AnalysisKind};
use super::count::{Count, largest_first};
use crate::record::Record;
use std::collections::BTreeMap;

pub(super) const KIND: AnalysisKind = AnalysisKind {
    name: "events",
    title: "events",
    about: "records by event",
    usual: true,
    new: |_| Box::new(Events::default()),
};

/// Counts of records by event, while records come.
#[derive(Clone, Debug, Default)]
struct Events {
    /// The count of each event, at the index that is its number.
    counts: Vec<Option<Count>>,
}

impl Analysis for Events {
    fn add(&mut self, record: &Record<'_>) {
        let id = usize::from(record.event.id.0);
        if self.counts.len() <= id {
            self.counts.resize(id + 1, None);
        }
        match &mut self.counts[id] {
            Some(row) => row.count += 1,
            row => {
                *row = Some(Count {
                    name: record.event.name.clone(),
                    count: 1,
                });
            }
        }
    }

    /// One count per name, the largest first. Several event numbers can share a name: a system call has one for each form of its records, which differ by what the
    /// arguments point to.
    fn finish(self: Box<Self>) -> Vec<Count> {
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        for row in self.counts.into_iter().flatten() {
            *by_name.entry(row.name).or_default() += row.count;
        }
        let rows = by_name.into_iter().map(|(name, count)| Count { name, count });
        largest_first(rows.collect())
    }
}
