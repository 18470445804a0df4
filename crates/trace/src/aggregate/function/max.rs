//! `max(value)`: the greatest of what [`rank`](crate::aggregate::aggregation::rank) gives is kept.

use super::extreme::Extreme;
use crate::aggregate::aggregation::Function;

/// `max(value)`.
pub const MAX: &dyn Function = &Extreme {
    name: "max",
    ranked: |kept| kept,
};
