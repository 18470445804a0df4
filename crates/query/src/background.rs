//! Background of expressions beside the record: names of threads at its time, and when the trace began.

use kestrel_trace::process::{Learner, Processes};
use kestrel_trace::record::Record;
use kestrel_trace::tasks::Tasks;

/// Background knowledge about a trace, collected while its records pass.
#[derive(Clone, Debug, Default)]
pub struct Background {
    /// Names of threads.
    pub processes: Processes,
    /// The threads' processes.
    pub tasks: Tasks,
    /// Time of the trace's first record, ns: what `elapsed` is counted from.
    pub begin_ns: u64,
    learner: Learner,
}

impl Background {
    /// Background of a trace whose first record is of this time; some names of threads are known.
    pub fn new(processes: Processes, begin_ns: u64) -> Self {
        Self {
            processes,
            tasks: Tasks::default(),
            begin_ns,
            learner: Learner::default(),
        }
    }

    /// The background with what is known of threads' processes.
    pub fn with_tasks(self, tasks: Tasks) -> Self {
        Self { tasks, ..self }
    }

    /// Learns names of threads from a record. For every record, wanted or not.
    pub fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
    }
}
