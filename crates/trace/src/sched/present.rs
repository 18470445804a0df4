//! Scheduler events that a trace records, and what a question lacks.

use super::event::SchedulerEvent;
use crate::info::TraceInfo;

/// The events that a trace may have records of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// `sched_switch`.
    pub switches: bool,
    /// `sched_waking`: what wakes a task, where it runs.
    pub waking: bool,
    /// `sched_wakeup`: a task put into a CPU's queue.
    pub wakeup: bool,
    /// `sched_wakeup_new`: a new task's first wakeup.
    pub wakeup_new: bool,
    /// `sched_stat_runtime`: the time that the scheduler charged.
    pub runtime: bool,
    /// `sched_migrate_task`.
    pub migrations: bool,
}

/// Events that a trace lacks for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingEvents {
    /// Switches are missing: it is unknown what runs where.
    Switches,
    /// Wakeups are missing: it is unknown who was woken.
    Wakeups,
}

impl Present {
    /// Events that the trace declares with all the fields that are read.
    pub fn of(info: &TraceInfo) -> Self {
        let mut present = Self::default();
        for event in &info.events {
            match SchedulerEvent::of(event) {
                Some(SchedulerEvent::Switch) => present.switches = true,
                Some(SchedulerEvent::Waking) => present.waking = true,
                Some(SchedulerEvent::Wakeup) => present.wakeup = true,
                Some(SchedulerEvent::WakeupNew) => present.wakeup_new = true,
                Some(SchedulerEvent::Runtime) => present.runtime = true,
                Some(SchedulerEvent::Migrate) => present.migrations = true,
                Some(SchedulerEvent::Rename | SchedulerEvent::Fork) | None => {}
            }
        }
        present
    }

    /// Missing events where switches are asked for, and `wakeups` too.
    pub fn lacks(&self, wakeups: bool) -> Option<MissingEvents> {
        if !self.switches {
            return Some(MissingEvents::Switches);
        }
        (wakeups && !self.has_wakeups()).then_some(MissingEvents::Wakeups)
    }

    /// Whether wakeups of tasks that slept are there.
    pub fn has_wakeups(&self) -> bool {
        self.waking || self.wakeup
    }
}

impl std::fmt::Display for MissingEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Switches => "no sched:sched_switch with its fields",
            Self::Wakeups => "neither sched:sched_waking nor sched:sched_wakeup",
        })
    }
}
