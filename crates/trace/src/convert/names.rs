//! Names of threads learned from records, and which of them the converted file has already.

use super::conversion::RecordingContext;
use crate::process::{Learner, Name, Processes};
use crate::record::Record;
use std::collections::HashMap;

/// Names of threads, kept up to date while records are converted.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) processes: Processes,
    learner: Learner,
    /// The name of each thread that the file has, by the thread's number.
    written: HashMap<u32, Name, foldhash::fast::RandomState>,
}

impl Names {
    pub(super) fn new(recording: &RecordingContext) -> Self {
        Self {
            processes: recording.processes.clone(),
            ..Self::default()
        }
    }

    /// The names known before the first record, which the file has at its beginning.
    pub(super) fn begin(&mut self) -> Vec<(u32, Name)> {
        let names = self.processes.iter();
        let all: Vec<_> = names.map(|(tid, name)| (tid, name.clone())).collect();
        self.written.extend(all.iter().cloned());
        all
    }

    /// Learns names from a record.
    pub(super) fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
    }

    /// The name of the record's thread, if the file does not have it yet. Thread 0 is left out: there is one per CPU, and readers of the file name them.
    pub(super) fn new_of(&mut self, record: &Record<'_>) -> Option<&Name> {
        let name = self.processes.known(record.tid, record.pid)?;
        if record.tid == 0 || self.written.get(&record.tid).is_some_and(|known| known == name) {
            return None;
        }
        self.written.insert(record.tid, name.clone());
        Some(name)
    }
}
