//! An aggregation of a handler before its map is known.

use super::tree::Expr;
use kestrel_trace::aggregate::Aggregation;

/// An aggregation whose map is not known yet: its function and the value to be added.
pub(crate) struct PendingAggregation {
    /// The function and its words.
    pub(crate) aggregation: Aggregation,
    /// The number, if it takes one.
    pub(crate) value: Option<Expr>,
}
