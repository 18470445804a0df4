//! `kestrel handler`: the handlers of a persistent session; one file and one row per subcommand.

mod control;
mod list;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// Subcommands of `kestrel handler`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the handlers of a session: events, counts, maps and parameters
    List(list::Options),
    /// Change a parameter of a handler, or empty its maps and counts
    Control(control::Options),
}

/// Carries out a verb.
pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::List(options) => list::run(options),
        Command::Control(options) => control::run(options),
    }
}
