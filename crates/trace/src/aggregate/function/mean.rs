//! Count, sum and mean, which the aggregations `avg` and `stats` have in common.

use crate::aggregate::aggregation::{Aggregation, Metric, first};

/// Number of words of such a value: the count, and the sum.
pub(super) const WORDS: u32 = 2;

/// Sum of the values.
pub(super) fn total(aggregation: &Aggregation, words: &[u64]) -> i128 {
    aggregation.number(words.get(1).copied().unwrap_or_default())
}

/// The mean, rounded towards zero.
pub(super) fn average(aggregation: &Aggregation, words: &[u64]) -> i128 {
    total(aggregation, words) / i128::from(first(words).max(1))
}

/// Whether no value was counted.
pub(super) fn is_untouched(words: &[u64]) -> bool {
    first(words) == 0
}

pub(super) fn metric(aggregation: &Aggregation, words: &[u64]) -> Metric {
    Metric::Mean {
        count: first(words),
        sum: total(aggregation, words),
    }
}
