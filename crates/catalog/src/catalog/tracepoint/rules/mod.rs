//! Field rules: how the fields of a tracepoint's formatted entry are computed from the raw tracepoint's arguments.
//!
//! This folder is a table, a file per subject; it grows by rows. A field's *type* is the one that the kernel's format file states; a row only says where
//! the value comes from, as an expression of the language over the raw arguments (named as in the kernel's `TP_PROTO`), with
//! `PFN(page)` for the number of a page's frame. A field that a row does not name is the argument of its name, if there is one of its size.
//! An event may have several rows, for kernels that differ. Where none fits the running kernel (a renamed member, a new field),
//! the event is recorded from its formatted entry instead; guests of every kernel compare both field by field. Events whose fields
//! are all arguments stand in [`super::plain`].

mod interrupts;
mod memory;
mod network;
mod row;
mod scheduler;
mod security;
mod storage;
mod timers;

use super::plain::is_plain;
use row::{Fields, Row};

/// Rule that reads one tracepoint raw: through the raw tracepoint of its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    /// Name of the raw tracepoint.
    pub(crate) raw: &'a str,
    /// Fields that are computed.
    pub(crate) fields: Fields,
}

const TABLES: &[&[Row]] = &[
    scheduler::ROWS,
    interrupts::ROWS,
    timers::ROWS,
    memory::ROWS,
    storage::ROWS,
    network::ROWS,
    security::ROWS,
];

/// The rules for `group:name`, best first.
pub(super) fn of<'a>(full: &'a str, name: &'a str) -> impl Iterator<Item = Rule<'a>> {
    let plain: Option<Fields> = is_plain(full).then_some(&[]);
    rows(full)
        .chain(plain)
        .map(move |fields| Rule { raw: name, fields })
}

/// Fields by the rows of these tables for `group:name`.
pub(super) fn rows(full: &str) -> impl Iterator<Item = Fields> {
    let rows = TABLES.iter().flat_map(|rows| rows.iter());
    rows.filter(move |(event, _)| *event == full)
        .map(|(_, fields)| *fields)
}
