//! Names of threads as records tell them, and which of them are in the file already.

use super::conversion::Recording;
use crate::process::{Learner, Processes};
use crate::record::Record;
use std::collections::HashMap;

/// Names of threads while records come.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) processes: Processes,
    learner: Learner,
    written: HashMap<u32, String, foldhash::fast::RandomState>,
}

impl Names {
    pub(super) fn new(recording: &Recording) -> Self {
        Self {
            processes: recording.processes.clone(),
            ..Self::default()
        }
    }

    /// The names that were known before the first record: the file says them at its begin.
    pub(super) fn begin(&mut self) -> Vec<(u32, String)> {
        let text = self.processes.to_text();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let all: Vec<_> = pairs
            .filter_map(|(tid, name)| Some((tid.parse().ok()?, name.to_owned())))
            .collect();
        self.written.extend(all.iter().cloned());
        all
    }

    /// Takes what a record tells.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
    }

    /// The name of the record's thread, where the file does not say yet that it is called so. The idle threads are the reader's to name.
    pub(super) fn new_of(&mut self, record: &Record<'_>) -> Option<&str> {
        let name = self.processes.name(record.tid, record.pid)?;
        if record.tid == 0 || self.written.get(&record.tid).is_some_and(|known| known == name) {
            return None;
        }
        self.written.insert(record.tid, name.to_owned());
        Some(name)
    }
}
