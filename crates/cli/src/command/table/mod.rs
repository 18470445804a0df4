//! `kestrel table`: the tables of files and of sessions; one file and one row per verb.

mod files;
mod list;
mod load;
mod unload;
mod r#use;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// Subcommands of `kestrel table`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Check a table file: its syntax, its handlers, and whether this kernel has its events
    Check(files::CheckOptions),
    /// Show the tables of a file, event by event, with handlers and classes on this kernel
    Show(files::ShowOptions),
    /// List the tables of a session, or the table files that come with Kestrel
    List(list::Options),
    /// Switch a session to another table
    Use(r#use::Options),
    /// Load a table into a running session, or replace the table of the same name
    Load(load::Options),
    /// Remove a table from a running session
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
