//! `hist(value[, bits])`: a count for each power of two, cut into 2^bits parts.

use super::buckets::ByBucket;
use crate::aggregate::gather::Function;
use crate::aggregate::histogram::Buckets;

/// `hist(value[, bits])`; its parameter is the bits.
pub const HIST: &dyn Function = &ByBucket {
    name: "hist",
    is_sound: |parameters| matches!(parameters, [bits] if (0..=Buckets::MOST_BITS.into()).contains(bits)),
    buckets: |with| Buckets::Powers {
        bits: with.parameter(0) as u8,
    },
};
