//! Calls counted: how many, how many failed, how long they took; of all threads together or of each.

use super::call::{Call, End};
use crate::syscall::Errno;
use serde::Serialize;
use std::collections::BTreeMap;

/// Grouping of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// All threads together.
    #[default]
    Call,
    /// Each thread.
    Thread,
    /// Each process.
    Process,
}

/// The calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The call's name.
    pub call: String,
    /// Number of calls that returned.
    pub calls: u64,
    /// Number of calls that failed.
    pub errors: u64,
    /// Number of failed calls by name of the error.
    pub by_error: BTreeMap<String, u64>,
    /// Number of calls whose time is known.
    pub timed: u64,
    /// Time of those, ns.
    pub total_ns: u64,
    /// The shortest, ns.
    pub min_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The mean, ns.
    pub mean_ns: f64,
    /// Standard deviation, ns.
    pub stddev_ns: f64,
    /// Sum of the squares of differences from the mean.
    #[serde(skip)]
    pub(super) squares: f64,
}

/// The calls of one thread, one process, or all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Group {
    /// The thread or process; `None` for all.
    pub id: Option<u32>,
    /// The process of the thread.
    pub pid: Option<u32>,
    /// The thread's name, where it is known.
    pub comm: Option<String>,
    /// Rows of the calls, the most time first.
    pub rows: Vec<Row>,
    /// Number of calls that had not returned, by call.
    pub unfinished: BTreeMap<String, u64>,
}

/// Counts and times of calls, by name and by whatever they are split.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    by: By,
    groups: BTreeMap<Option<u32>, GroupCounts>,
}

#[derive(Clone, Debug, Default)]
struct GroupCounts {
    pid: u32,
    rows: BTreeMap<String, Row>,
    unfinished: BTreeMap<String, u64>,
}

impl Summary {
    /// A summary of no calls.
    pub fn new(by: By) -> Self {
        Self {
            by,
            groups: BTreeMap::new(),
        }
    }

    /// Takes a call.
    pub fn add(&mut self, call: &Call) {
        let id = match self.by {
            By::Call => None,
            By::Thread => Some(call.tid),
            By::Process => Some(call.pid),
        };
        let group = self.groups.entry(id).or_default();
        group.pid = call.pid;
        let name = call.signature.shown();
        if !matches!(call.end, End::Returned(_)) {
            return *group.unfinished.entry(name).or_default() += 1;
        }
        let row = group.rows.entry(name);
        let row = row.or_insert_with_key(|name| Row::new(name));
        row.add(call.error(), call.duration());
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The counts; `comm` knows names of threads by their numbers and those of their processes.
    pub fn finish(self, comm: &dyn Fn(u32, u32) -> Option<String>) -> Vec<Group> {
        let mut groups: Vec<Group> = self
            .groups
            .into_iter()
            .map(|(id, group)| {
                let mut rows: Vec<Row> = group.rows.into_values().collect();
                rows.sort_unstable_by(|a, b| {
                    (b.total_ns, b.calls, &a.call).cmp(&(a.total_ns, a.calls, &b.call))
                });
                Group {
                    id,
                    pid: id.map(|_| group.pid),
                    comm: id.and_then(|id| comm(id, group.pid)),
                    rows,
                    unfinished: group.unfinished,
                }
            })
            .collect();
        groups.sort_unstable_by_key(|group| (std::cmp::Reverse(group.calls()), group.id));
        groups
    }
}

impl Group {
    /// Number of calls that returned.
    pub fn calls(&self) -> u64 {
        self.rows.iter().map(|row| row.calls).sum()
    }
}

impl Row {
    fn new(call: &str) -> Self {
        Self {
            call: call.to_owned(),
            ..Self::default()
        }
    }

    fn add(&mut self, error: Option<Errno>, duration: Option<u64>) {
        self.calls += 1;
        if let Some(error) = error {
            self.errors += 1;
            let name = error.name.map_or_else(|| error.number.to_string(), str::to_owned);
            *self.by_error.entry(name).or_default() += 1;
        }
        let Some(ns) = duration else { return };
        self.min_ns = if self.timed == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.timed += 1;
        self.total_ns += ns;
        // Welford's way: no difference of large sums.
        let difference = ns as f64 - self.mean_ns;
        self.mean_ns += difference / self.timed as f64;
        self.squares += difference * (ns as f64 - self.mean_ns);
        self.stddev_ns = (self.squares / self.timed as f64).sqrt();
    }
}
