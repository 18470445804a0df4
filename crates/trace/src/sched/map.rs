//! Scheduling map: the task of each CPU at each switch, as `perf sched map` shows it, with a shortcut of two letters for each task.

use super::comm::{Comm, Who};
use super::present::Present;
use super::scheduler::{Scheduler, Step};
use crate::process::Processes;
use crate::record::Record;
use std::collections::HashMap;

/// A task in two letters: `A0` to `Z9`, then `Aa` to `Zz`, then from the beginning again; `.` is an idle CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shortcut([u8; 2]);

/// The second letters.
const SECOND: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Follows which CPU has which task.
#[derive(Clone, Debug)]
pub struct Map {
    scheduler: Scheduler,
    shortcuts: HashMap<u32, Shortcut>,
    /// Under which names tasks were explained.
    explained: HashMap<u32, Comm>,
    given: usize,
    cpus: Vec<Option<(Who, Shortcut)>>,
}

/// A CPU takes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// ns of the trace's clock.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task that it leaves.
    pub out: Who,
    /// The task that it takes.
    pub who: Who,
    /// The shortcut of that.
    pub shortcut: Shortcut,
}

impl Shortcut {
    /// An idle CPU.
    pub const IDLE: Self = Self(*b". ");

    fn numbered(number: usize) -> Self {
        let (first, second) = (number % 26, number / 26 % SECOND.len());
        Self([b'A' + first as u8, SECOND[second]])
    }
}

impl std::fmt::Display for Shortcut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl Map {
    /// For a trace with these events, whose recorder knew these names.
    pub fn new(present: Present, names: Processes) -> Self {
        Self {
            scheduler: Scheduler::new(present, names),
            shortcuts: HashMap::new(),
            explained: HashMap::new(),
            given: 0,
            cpus: Vec::new(),
        }
    }

    /// Takes the next record in time; gives what a CPU takes, if it does.
    pub fn add(&mut self, record: &Record<'_>) -> Option<Change> {
        let Step::Switch(switch) = self.scheduler.step(record)? else {
            return None;
        };
        let who = switch.into.who;
        let shortcut = self.shortcut(who);
        let index = switch.cpu as usize;
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, None);
        }
        self.cpus[index] = Some((who, shortcut));
        Some(Change {
            time_ns: switch.time_ns,
            cpu: switch.cpu,
            out: switch.out.who,
            who,
            shortcut,
        })
    }

    /// Current task of each CPU, by number; none where it was not seen yet.
    pub fn cpus(&self) -> &[Option<(Who, Shortcut)>] {
        &self.cpus
    }

    /// Whether a shortcut wants an explanation where it is shown now: it has none yet, or its task has another name since.
    pub fn explain(&mut self, who: &Who) -> bool {
        !who.is_idle() && self.explained.insert(who.tid, who.comm) != Some(who.comm)
    }

    fn shortcut(&mut self, who: Who) -> Shortcut {
        if who.is_idle() {
            return Shortcut::IDLE;
        }
        let given = &mut self.given;
        *self.shortcuts.entry(who.tid).or_insert_with(|| {
            *given += 1;
            Shortcut::numbered(*given - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortcuts_are_letters_then_digits() {
        let shown = |number| Shortcut::numbered(number).to_string();
        assert_eq!(
            [shown(0), shown(25), shown(26), shown(259), shown(260), shown(936)],
            ["A0", "Z0", "A1", "Z9", "Aa", "A0"]
        );
    }
}
