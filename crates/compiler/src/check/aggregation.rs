//! Aggregations: what they put into a map.

use super::tree::Expr;
use kestrel_trace::aggregate::Aggregation;

/// Aggregation of a map: its function and the gathered value.
pub(crate) struct PendingAggregation {
    /// The function and its words.
    pub(crate) aggregation: Aggregation,
    /// The number, if it takes one.
    pub(crate) value: Option<Expr>,
}
