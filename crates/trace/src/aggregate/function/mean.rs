//! What the aggregations with a count and a sum have in common (`avg`, `stats`).

use crate::aggregate::gather::{Gathered, Metric, first};

/// Number of words of such a value: the count, and the sum.
pub(super) const WORDS: u32 = 2;

/// Sum of the values.
pub(super) fn total(with: &Gathered, words: &[u64]) -> i128 {
    with.number(words.get(1).copied().unwrap_or_default())
}

/// The mean, rounded towards zero.
pub(super) fn average(with: &Gathered, words: &[u64]) -> i128 {
    total(with, words) / i128::from(first(words).max(1))
}

/// Whether no value was counted.
pub(super) fn is_untouched(words: &[u64]) -> bool {
    first(words) == 0
}

pub(super) fn metric(with: &Gathered, words: &[u64]) -> Metric {
    Metric::Mean {
        count: first(words),
        sum: total(with, words),
    }
}
