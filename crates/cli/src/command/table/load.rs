//! `kestrel table load`: a table for a session that runs, without stopping it.

use crate::exit::{Exit, Failure};
use crate::output::warnings::warn_of_plan;
use clap::Args;
use kestrel::catalog::{Catalog, Via};
use kestrel::kernel::Host;
use kestrel::table::shipped;

/// Options of `table load`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A table file, or the name of a shipped one
    file: String,
    /// One table of the file, instead of all
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// The session, where there are several
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel table load detail.kst                   every table of the file
  kestrel table load detail.kst --table locks     one of them
  kestrel table use locks

A table of the same name is replaced. If it is the active one, the next event meets the new handler; no event is lost or handled twice.
A table can only use buffers that the session has: those of its table file, and those made by `kestrel buffer create`.";

/// Runs `kestrel table load`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let store = crate::sessions::store(&host)?;
    let file = shipped::open(&options.file)?;
    let names: Vec<String> = match &options.table {
        Some(name) => vec![name.clone()],
        None => file.table_names().map(str::to_owned).collect(),
    };
    let catalog = Catalog::new(host);
    let mut change = store.change(options.session.as_deref())?;
    let loaded = change.load(&file, &names, &catalog, Via::Auto)?;
    warn_of_plan(&file, &loaded.warnings);
    for event in &loaded.skipped {
        eprintln!("  left out {}: {}", event.event, event.why);
    }
    for event in &loaded.moved {
        eprintln!(
            "  {event} is seen at the tracepoint from now on, where objects see it; a call that was between tracepoint and function at that moment was missed"
        );
    }
    if let Some(why) = &loaded.relays_pending {
        eprintln!(
            "warning: the tables are loaded, but the handlers that were there could not be made anew: {why}\nhint: until a change of the session does that, an event that the kernel skips in the new hook may be handled by two tables; `kestrel status` says so"
        );
    }
    Ok(Exit::Done)
}
