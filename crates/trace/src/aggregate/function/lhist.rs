//! `lhist(value, min, max, step)`: a count for each step of equal width.

use super::buckets::ByBucket;
use crate::aggregate::aggregation::Function;
use crate::aggregate::histogram::Buckets;

/// `lhist(value, min, max, step)`; its parameters are the last three.
pub const LHIST: &dyn Function = &ByBucket {
    name: "lhist",
    is_sound: |parameters| matches!(parameters, [min, max, step] if *step > 0 && min < max),
    buckets: |aggregation| Buckets::Linear {
        min: aggregation.parameter(0),
        max: aggregation.parameter(1),
        step: aggregation.parameter(2),
    },
};
