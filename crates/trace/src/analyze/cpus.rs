//! Records by CPU.

use super::analysis::{Analysis, AnalysisKind};
use super::count::Count;
use super::tally::Tally;
use crate::record::Record;

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
    counts: Tally<u32>,
}

impl Analysis for Cpus {
    fn add(&mut self, record: &Record<'_>) {
        self.counts.add(record.cpu, record.cpu);
    }

    /// In the order of the CPUs.
    fn finish(self: Box<Self>) -> Vec<Count> {
        let row = |(cpu, count)| Count {
            name: format!("CPU {cpu}"),
            count,
        };
        self.counts.finish().into_iter().map(row).collect()
    }
}
