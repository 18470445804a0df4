//! `kestrel probe`: probes in the kernel's code; one file and one row per verb.

mod add;
mod list;
mod remove;
mod rows;
mod show;
mod switch;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// The verbs.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Put named probes into the kernel, which stay when the command returns
    Add(add::Options),
    /// List named probes with their hits, or all kprobes of the kernel
    List(list::Options),
    /// Let named probes, or all, work again
    Enable(switch::Options),
    /// Keep named probes, or all, still without removing them
    Disable(switch::Options),
    /// Remove named probes
    Remove(remove::Options),
    /// Show the instructions of a kernel function: which can be probed, and where probes sit
    Show(show::Options),
}

/// Carries out a verb.
pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(options) => add::run(options),
        Command::List(options) => list::run(options),
        Command::Enable(options) => switch::run(options, true),
        Command::Disable(options) => switch::run(options, false),
        Command::Remove(options) => remove::run(options),
        Command::Show(options) => show::run(options),
    }
}
