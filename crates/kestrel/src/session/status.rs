//! What a session that stays is doing: tables, buffers, counts of events, and over an interval rates and costs; read only.

use super::stay::PinnedSession;

/// A table of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStatus {
    /// Its name.
    pub name: String,
    /// Whether it is the active one.
    pub active: bool,
    /// Since when, ns since 1970; `None` if it is not active, or a handler made it so.
    pub since: Option<u64>,
    /// Events that it has a handler for.
    pub events: usize,
    /// Different handlers.
    pub handlers: usize,
    /// The file that it comes from.
    pub file: Option<String>,
    /// When it was loaded: ns since 1970.
    pub loaded: u64,
}

impl PinnedSession {
    /// Its tables, in the order in which they came.
    pub fn tables(&self) -> Vec<TableStatus> {
        let active = self.control.active();
        let since = self.control.switched();
        let status = |table: &super::state::TableState| TableStatus {
            name: table.name.clone(),
            active: table.word() == active,
            since: since.filter(|_| table.word() == active),
            events: self.state.events_in(table.number),
            handlers: self.state.handlers_in(table.number),
            file: table.file.clone(),
            loaded: table.loaded,
        };
        self.state.tables.iter().map(status).collect()
    }
}
