//! `kestrel probe`: probes in the kernel's code; one file and one row per verb.

mod show;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// The verbs.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show the instructions of a kernel function: which can be probed, and where probes sit
    Show(show::Options),
}

/// Carries out a verb.
pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Show(options) => show::run(options),
    }
}
