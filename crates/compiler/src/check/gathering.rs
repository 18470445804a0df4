//! Aggregations: what they put into a map.

use super::tree::Expr;
use kestrel_trace::aggregate::Gathered;

/// Aggregation of a map: its function and the gathered value.
pub(crate) struct Gathering {
    /// The function and its words.
    pub(crate) gathered: Gathered,
    /// The number, if it takes one.
    pub(crate) value: Option<Expr>,
}
