//! `hist(value[, bits])`: a count for each power of two, cut into 2^bits parts.

use super::buckets::ByBucket;
use crate::aggregate::aggregation::Function;
use crate::aggregate::histogram::Buckets;

/// `hist(value[, bits])`; its parameter is the bits.
pub const HIST: &dyn Function = &ByBucket {
    name: "hist",
    is_sound: |parameters| matches!(parameters, [bits] if (0..=Buckets::MAX_BITS.into()).contains(bits)),
    buckets: |aggregation| Buckets::Powers {
        bits: aggregation.parameter(0) as u8,
    },
};
