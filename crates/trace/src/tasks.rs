//! Tasks: the processes that threads belong to, and the threads that a recording followed: kept beside the streams, because events about a thread have its
//! number only.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Threads of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// Threads that have another number than their process, with that one's.
    #[serde(default)]
    threads: BTreeMap<u32, u32>,
    /// Threads that the recording is about, as ascending ranges (first, last); `None` where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<(u32, u32)>>,
}

impl Tasks {
    /// The file within a trace's side folder: JSON.
    pub const FILE: &'static str = "tasks";

    /// A thread belongs to a process.
    pub fn insert(&mut self, tid: u32, pid: u32) {
        if tid != pid {
            self.threads.insert(tid, pid);
        }
    }

    /// The process of a thread; one that is not known has its process's number.
    pub fn process(&self, tid: u32) -> u32 {
        self.threads.get(&tid).copied().unwrap_or(tid)
    }

    /// Says which threads the recording is about, in ascending order.
    pub fn follow(&mut self, threads: impl IntoIterator<Item = u32>) {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for thread in threads {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == thread => *last = thread,
                _ => ranges.push((thread, thread)),
            }
        }
        self.targets = Some(ranges);
    }

    /// Takes the threads of another recording; together they are about all that either is about.
    pub(crate) fn extend(&mut self, others: Self) {
        for (tid, pid) in others.threads {
            self.threads.entry(tid).or_insert(pid);
        }
        self.targets = match (self.targets.take(), others.targets) {
            (Some(mut ours), Some(theirs)) => {
                ours.extend(theirs);
                ours.sort_unstable();
                Some(joined(&ours))
            }
            _ => None,
        };
    }

    /// Whether the recording is about this thread.
    pub fn is_target(&self, tid: u32) -> bool {
        let Some(ranges) = &self.targets else { return true };
        let behind = ranges.partition_point(|(first, _)| *first <= tid);
        behind > 0 && tid <= ranges[behind - 1].1
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what `to_text` wrote.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Side {
            what: "the trace's threads".into(),
            why: error.to_string(),
        })
    }
}

/// Ranges in order, joined where they overlap or touch.
fn joined(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut disjoint: Vec<(u32, u32)> = Vec::new();
    for &(first, last) in ranges {
        match disjoint.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => disjoint.push((first, last)),
        }
    }
    disjoint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_file_is_parsed_as_it_was_written() {
        let mut tasks = Tasks::default();
        tasks.insert(7, 7);
        tasks.insert(8, 7);
        assert!(
            tasks.is_target(3),
            "without targets a recording is about all threads"
        );
        tasks.follow([7, 8, 9, 11]);
        let read = Tasks::parse(&tasks.to_text()).unwrap();
        assert_eq!(read, tasks);
        assert_eq!((read.process(8), read.process(7), read.process(9)), (7, 7, 9));
        let targets: Vec<u32> = (0..20).filter(|tid| read.is_target(*tid)).collect();
        assert_eq!(targets, [7, 8, 9, 11]);
        assert!(Tasks::parse("7 8").is_err());
    }
}
