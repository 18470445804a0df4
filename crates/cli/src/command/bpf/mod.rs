//! `kestrel bpf`: compiled BPF objects; one file per verb.

mod object;
mod run;
mod show;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// The verbs about objects.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Load an object, attach its programs, and wait until Ctrl-C
    Run(Box<run::Options>),
    /// Show what is in an object, without loading it
    Show(show::Options),
}

/// Carries out a verb.
pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(options) => run::run(options),
        Command::Show(options) => show::run(options),
    }
}
