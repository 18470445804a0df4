//! Scheduling latency: how long runnable tasks waited for a CPU, and how long they ran, as `perf sched latency` defines it.

use super::comm::{Comm, Who};
use super::only::SchedFilter;
use super::present::Present;
use super::scheduler::{Delay, Reason, Scheduler, Step, Switch};
use crate::process::Processes;
use crate::record::Record;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Grouping of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// One thread.
    #[default]
    Thread,
    /// All threads of a process.
    Process,
    /// All tasks of a name.
    Comm,
}

/// Sort order of the rows; the largest come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Time run.
    Runtime,
    /// Number of delays.
    Switch,
    /// Average delay.
    Avg,
    /// Maximum delay.
    Max,
    /// Number of the thread, the smallest first.
    Pid,
}

/// The figures of a task, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// The task; of several, that with the longest delay.
    #[serde(flatten)]
    pub who: Who,
    /// Number of tasks.
    pub tasks: u64,
    /// Running time, ns.
    pub runtime_ns: u64,
    /// Number of switches to the task after a delay, or as one that was not seen before.
    pub switches: u64,
    /// Number of switches to the task without a wakeup: that is not in the trace.
    pub unexplained: u64,
    /// All delays, ns.
    pub delay_ns: u64,
    /// The average of a delay, ns.
    pub average_ns: u64,
    /// The longest delay, ns.
    pub max_ns: u64,
    /// Begin of the longest delay, ns of the trace's clock.
    pub max_began_ns: u64,
    /// End of the longest delay.
    pub max_ended_ns: u64,
}

/// Collects delays and run times.
#[derive(Clone, Debug)]
pub struct Latencies {
    scheduler: Scheduler,
    /// Whether the scheduler's own account of time is there; else time runs from switch to switch.
    charged: bool,
    only: SchedFilter,
    rows: HashMap<u32, Latency>,
}

impl Latencies {
    /// Latencies of a trace with these events, whose recorder knew these names. `only` selects CPUs and times at which a delay ended or a task ran.
    pub fn new(present: Present, names: Processes, only: SchedFilter) -> Self {
        Self {
            scheduler: Scheduler::new(present, names),
            charged: present.runtime,
            only,
            rows: HashMap::new(),
        }
    }

    /// Takes the next record in time.
    pub fn add(&mut self, record: &Record<'_>) {
        match self.scheduler.step(record) {
            Some(Step::Switch(switch)) => self.switch(&switch),
            Some(Step::Run(run)) if self.charged && self.counts(run.time_ns, run.cpu) => {
                let runtime = &mut self.rows.entry(run.who.tid).or_default().runtime_ns;
                *runtime = runtime.saturating_add(run.ns);
            }
            _ => {}
        }
    }

    fn counts(&self, time_ns: u64, cpu: u32) -> bool {
        self.only.time(time_ns) && self.only.cpu(cpu)
    }

    fn switch(&mut self, switch: &Switch<'_>) {
        if !self.counts(switch.time_ns, switch.cpu) {
            return;
        }
        if let (false, Some(since)) = (self.charged, switch.out.since_ns) {
            let since = since.max(self.only.from_ns.unwrap_or(0));
            let row = self.rows.entry(switch.out.who.tid).or_default();
            row.runtime_ns = row
                .runtime_ns
                .saturating_add(switch.time_ns.saturating_sub(since));
        }
        let row = self.rows.entry(switch.into.who.tid).or_default();
        match switch.into.delay {
            Some(delay) => row.delay(delay),
            None => row.unexplained += 1,
        }
    }

    /// The rows in that order, without those of idle tasks and of tasks that never ran.
    pub fn finish(self, by: By, sort: &[Sort]) -> Vec<Latency> {
        let mut merged: HashMap<(u32, Comm), Latency> = HashMap::new();
        for (tid, mut row) in self.rows {
            row.who = self.scheduler.who(tid);
            row.tasks = 1;
            if tid == 0 || row.switches + row.unexplained == 0 || !self.only.task(&row.who) {
                continue;
            }
            let key = match by {
                By::Thread => (tid, Comm::default()),
                By::Process => (row.who.pid, Comm::default()),
                By::Comm => (0, row.who.comm),
            };
            match merged.get_mut(&key) {
                Some(into) => into.merge(&row),
                None => {
                    merged.insert(key, row);
                }
            }
        }
        let mut rows: Vec<Latency> = merged.into_values().collect();
        for row in &mut rows {
            row.average_ns = row.delay_ns.checked_div(row.switches).unwrap_or(0);
            if by == By::Process {
                row.who = self.scheduler.who(row.who.pid);
                row.who.pid = row.who.tid;
            }
        }
        rows.sort_by(|left, right| {
            let order = sort.iter().map(|sort| sort.compare(left, right));
            let order = order.fold(Ordering::Equal, Ordering::then);
            order.then(left.who.tid.cmp(&right.who.tid))
        });
        rows
    }
}

impl Sort {
    fn compare(self, left: &Latency, right: &Latency) -> Ordering {
        let largest_first = |of: fn(&Latency) -> u64| of(right).cmp(&of(left));
        match self {
            Self::Runtime => largest_first(|row| row.runtime_ns),
            Self::Switch => largest_first(|row| row.switches),
            Self::Avg => largest_first(|row| row.average_ns),
            Self::Max => largest_first(|row| row.max_ns),
            Self::Pid => left.who.tid.cmp(&right.who.tid),
        }
    }
}

impl Latency {
    fn delay(&mut self, delay: Delay) {
        self.switches += 1;
        self.delay_ns = self.delay_ns.saturating_add(delay.ns);
        if delay.reason != Reason::Unseen && delay.ns > self.max_ns {
            self.max_ns = delay.ns;
            self.max_began_ns = delay.from_ns;
            self.max_ended_ns = delay.from_ns.saturating_add(delay.ns);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.tasks += other.tasks;
        self.runtime_ns = self.runtime_ns.saturating_add(other.runtime_ns);
        self.switches += other.switches;
        self.unexplained += other.unexplained;
        self.delay_ns = self.delay_ns.saturating_add(other.delay_ns);
        if other.max_ns > self.max_ns {
            self.who = other.who;
            self.max_ns = other.max_ns;
            self.max_began_ns = other.max_began_ns;
            self.max_ended_ns = other.max_ended_ns;
        }
    }
}
