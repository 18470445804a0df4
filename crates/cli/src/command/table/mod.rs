//! `kestrel table`: the tables of files and of sessions; one file and one row per verb.

mod files;
pub(super) mod list;
mod load;
mod unload;
mod r#use;

pub(super) use files::warn_of_plan;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// The verbs.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Say whether a table file is right, and whether this kernel has its events
    Check(files::Checked),
    /// Show the tables of a file on this kernel: event by event, its handler and its class
    Show(files::ShowOptions),
    /// List the tables of a session, or the table files that come with Kestrel
    List(list::Options),
    /// Make a table of a session the active one
    Use(r#use::Options),
    /// Add a table to a running session, or put it in the place of one of its name
    Load(load::Options),
    /// Take a table out of a running session
    Unload(unload::Options),
}

/// Carries out a verb.
pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Check(options) => files::check(options),
        Command::Show(options) => files::show(options),
        Command::List(options) => list::run(options),
        Command::Use(options) => r#use::run(options),
        Command::Load(options) => load::run(options),
        Command::Unload(options) => unload::run(options),
    }
}
