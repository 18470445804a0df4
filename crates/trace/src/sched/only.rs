//! Filters of scheduling questions: the tasks, CPUs and times that one is about.

use super::comm::Who;
use crate::tasks::Tasks;

/// Criteria of the filter; an empty list asks for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedFilter {
    /// Processes.
    pub pids: Vec<u32>,
    /// Threads.
    pub tids: Vec<u32>,
    /// The tasks that were recorded: of others there are fragments only.
    pub tasks: Tasks,
    /// CPUs.
    pub cpus: Vec<u32>,
    /// From this time on, in the trace's clock, ns.
    pub from_ns: Option<u64>,
    /// Up to this time.
    pub to_ns: Option<u64>,
}

impl SchedFilter {
    /// Whether the task is asked for: by its thread, or by its process.
    pub fn task(&self, who: &Who) -> bool {
        let all = self.pids.is_empty() && self.tids.is_empty();
        let asked = all || self.pids.contains(&who.pid) || self.tids.contains(&who.tid);
        asked && self.tasks.is_target(who.tid)
    }

    /// Whether the CPU is asked for.
    pub fn cpu(&self, cpu: u32) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }

    /// Whether the time is asked for.
    pub fn time(&self, time_ns: u64) -> bool {
        self.from_ns.is_none_or(|from| time_ns >= from) && !self.is_after(time_ns)
    }

    /// Whether the time is behind all that is asked for.
    pub(crate) fn is_after(&self, time_ns: u64) -> bool {
        self.to_ns.is_some_and(|to| time_ns > to)
    }
}
