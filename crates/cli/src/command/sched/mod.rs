//! `kestrel sched`: what the scheduler does; one file per verb.

mod filter;
mod latency;
mod map;
mod reading;
mod record;
mod show;
mod timehist;
mod wakeups;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// The verbs about the scheduler.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Record the scheduler's events of all tasks
    Record(Box<record::Options>),
    /// Show for each task how long it ran, and how long it waited for a CPU
    Latency(latency::Options),
    /// Show one line for each time that a task leaves a CPU: what it waited for before, and how long it ran
    Timehist(timehist::Options),
    /// Show which task each CPU has, a line for each switch
    Map(map::Options),
    /// Show who woke whom, and what led to the longest delays
    Wakeups(wakeups::Options),
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  kestrel sched record -- make                 all tasks while a command runs
  kestrel sched latency                        which tasks waited for a CPU, and how long
  kestrel sched timehist -s                    how long each task ran
  kestrel sched wakeups --worst 3              what led to the longest delays";

/// Carries out a verb.
pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Record(options) => record::run(*options),
        Command::Latency(options) => latency::run(&options),
        Command::Timehist(options) => timehist::run(&options),
        Command::Map(options) => map::run(&options),
        Command::Wakeups(options) => wakeups::run(&options),
    }
}
