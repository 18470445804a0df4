//! The tables of a session, as a table and as JSON.

use crate::style;
use kestrel::kernel::procfs::ClockPair;
use kestrel::session::status::TableStatus;
use kestrel_trace::print::thousands;
use serde_json::{Value, json};

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
