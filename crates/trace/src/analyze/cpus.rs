//! How many records are there of each CPU?

use super::analysis::{Analysis, AnalysisKind};
use super::count::Count;
use crate::record::Record;
use std::collections::BTreeMap;

pub(super) const KIND: AnalysisKind = AnalysisKind {
    name: "cpus",
    title: "CPUs",
    about: "records by CPU",
    usual: true,
    new: |_| Box::new(Cpus::default()),
};

/// Counts by CPU.
#[derive(Clone, Debug, Default)]
struct Cpus {
    counts: BTreeMap<u32, u64>,
}

impl Analysis for Cpus {
    fn add(&mut self, record: &Record<'_>) {
        *self.counts.entry(record.cpu).or_default() += 1;
    }

    /// In the order of the CPUs.
    fn finish(self: Box<Self>) -> Vec<Count> {
        let row = |(cpu, count)| Count {
            name: format!("CPU {cpu}"),
            count,
        };
        self.counts.into_iter().map(row).collect()
    }
}
