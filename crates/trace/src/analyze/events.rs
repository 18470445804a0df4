//! How many records are there of each event?

use super::count::{Count, largest_first};
use crate::record::Record;

/// Counts by event.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// By event number.
    counts: Vec<Option<Count>>,
}

impl Events {
    /// Takes a record.
    pub fn add(&mut self, record: &Record<'_>) {
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

    /// The answer, largest first.
    pub fn finish(self) -> Vec<Count> {
        largest_first(self.counts.into_iter().flatten().collect())
    }
}
