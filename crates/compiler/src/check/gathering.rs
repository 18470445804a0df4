//! What an aggregation puts into a map.

use super::tree::Expr;
use kestrel_trace::aggregate::Gathered;

/// How a map gathers, and what.
pub(crate) struct Gathering {
    /// How.
    pub(crate) gathered: Gathered,
    /// The number, if it takes one.
    pub(crate) value: Option<Expr>,
}
