//! `kestrel table list`: the tables of a session, and which one is active.

use crate::command::Format;
use crate::exit::{Exit, Failure};
use crate::style;
use clap::Args;
use kestrel::kernel::Host;
use kestrel::kernel::procfs::ClockPair;
use kestrel::session::status::TableStatus;
use kestrel_trace::print::thousands;
use serde_json::{Value, json};
use std::io::Write;

/// Options of `table list`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The session, where there are several
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// The table files that come with Kestrel, instead of a session's tables
    #[arg(long, conflicts_with = "session")]
    shipped: bool,
    /// How to show them
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Lists.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.shipped {
        return super::files::shipped(options.format);
    }
    let store = crate::sessions::store(&Host::default())?;
    let session = store.session(options.session.as_deref())?;
    let tables = session.tables();
    let mut out = crate::screen::out();
    match options.format {
        Format::Json => {
            for table in &tables {
                writeln!(out, "{}", as_json(table))?;
            }
        }
        Format::Text => out.write_all(text(&tables).as_bytes())?,
    }
    Ok(Exit::Done)
}

/// A table as JSON.
pub(crate) fn as_json(table: &TableStatus) -> Value {
    json!({
        "name": table.name,
        "active": table.active,
        "events": table.events,
        "handlers": table.handlers,
        "file": table.file,
        "loaded": table.loaded,
        "active_since": table.since,
    })
}

/// Tables as a table.
pub(crate) fn text(tables: &[TableStatus]) -> String {
    let widest = tables.iter().map(|t| t.name.len()).max().unwrap_or(0).max(5);
    let now = ClockPair::now().realtime;
    let mut text = format!(
        "  {:widest$}  {:>7}  {:>8}  {:14}  file\n",
        "table", "events", "handlers", "loaded"
    );
    for table in tables {
        text += &format!(
            "{} {:widest$}  {:>7}  {:>8}  {:14}  {}\n",
            if table.active { "*" } else { " " },
            table.name,
            thousands(table.events as u64),
            thousands(table.handlers as u64),
            style::ago(table.loaded, now),
            table.file.as_deref().unwrap_or("-"),
        );
    }
    text
}
