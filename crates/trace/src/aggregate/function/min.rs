//! `min(value)`: the greatest complement of what [`rank`](crate::aggregate::aggregation::rank) gives is kept.

use super::extreme::Extreme;
use crate::aggregate::aggregation::Function;

/// `min(value)`.
pub const MIN: &dyn Function = &Extreme {
    name: "min",
    ranked: |kept| !kept,
};
