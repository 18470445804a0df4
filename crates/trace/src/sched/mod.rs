//! Questions about the scheduler, answered from records of `sched:*` events: one state machine ([`Scheduler`]) that takes records in order of time, and one file per
//! question that takes its steps. The definitions are those of `perf sched`, so that figures of the same moments are equal.
//!
//! One entry is kept for each task and CPU (and pair of tasks, for wakeups), however many records come.

mod comm;
mod event;
mod latency;
mod map;
mod only;
mod present;
mod scheduler;
mod state;
#[cfg(test)]
mod tests;
mod timehist;
mod wakeups;

pub use comm::{Comm, Who};
pub use latency::{By, Latencies, Latency, Sort};
pub use map::{Change, Map, Shortcut};
pub use only::SchedFilter;
pub use present::{MissingEvents, Present};
pub use scheduler::{Arrival, Delay, Departure, Migration, Reason, Run, Scheduler, Step, Switch, Wakeup};
pub use state::TaskState;
pub use timehist::{Idle, Line, RunTimes, Summary, TaskRun, TaskSummary, Timehist};
pub use wakeups::{Link, Occupant, Pair, Wakeups, Worst};
