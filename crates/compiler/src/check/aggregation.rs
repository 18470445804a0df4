//! An aggregation of a handler before its map is known.

use super::tree::Expr;
use kestrel_trace::aggregate::Aggregation;

/// An aggregation whose map is not known yet: its function and the value to be added.
pub(crate) struct PendingAggregation {
    /// The function and its parameters.
    pub(crate) aggregation: Aggregation,
    /// The value to be added, where the function takes one.
    pub(crate) value: Option<Expr>,
}
