//! How many records are there of each CPU?

use super::count::Count;
use crate::record::Record;
use std::collections::BTreeMap;

/// Counts by CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpus {
    counts: BTreeMap<u32, u64>,
}

impl Cpus {
    /// Takes a record.
    pub fn add(&mut self, record: &Record<'_>) {
        *self.counts.entry(record.cpu).or_default() += 1;
    }

    /// The answer, by CPU.
    pub fn finish(self) -> Vec<Count> {
        let row = |(cpu, count)| Count {
            name: format!("CPU {cpu}"),
            count,
        };
        self.counts.into_iter().map(row).collect()
    }
}
