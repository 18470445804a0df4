//! The event mask tables of a session as text and as JSON.

use super::columns::Column::{Left, LeftOf, RightOf};
use super::columns::Columns;
use crate::style;
use kestrel::kernel::procfs;
use kestrel::session::status::TableStatus;
use kestrel_trace::print::thousands;

/// Tables as text: one per line, the active one marked.
pub(crate) fn text(tables: &[TableStatus]) -> String {
    let now = procfs::realtime();
    let mut columns = Columns::new([Left, RightOf(7), RightOf(8), LeftOf(14), Left]);
    columns.head("  ", ["table", "events", "handlers", "loaded", "file"]);
    for table in tables {
        columns.row(
            if table.active { "* " } else { "  " },
            [
                table.name.clone(),
                thousands(table.events as u64),
                thousands(table.handlers as u64),
                style::ago(table.loaded, now),
                table.file.as_deref().unwrap_or("-").to_owned(),
            ],
        );
    }
    columns.text()
}
