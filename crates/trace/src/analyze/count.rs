//! A name with a count: the row of most tables.

use serde::Serialize;

/// Number of records with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Name: an event's name, `comm-pid`, `CPU 3`, a value.
    pub name: String,
    /// Number of records.
    pub count: u64,
}

/// Rows with the largest first; equal ones keep their order.
pub(super) fn largest_first(mut counts: Vec<Count>) -> Vec<Count> {
    counts.sort_by_key(|row| std::cmp::Reverse(row.count));
    counts
}
