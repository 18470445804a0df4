//! The base of `min` and `max`: the greatest of the ranks of values on each CPU, so that 0 stands for nothing.

use crate::aggregate::gather::{AsNumber, Function, Gathered, Metric, first, rank};

/// The least or the greatest of the values.
pub(super) struct Extreme {
    pub(super) name: &'static str,
    /// The rank of a value out of what is kept, or the other way round.
    pub(super) ranked: fn(u64) -> u64,
}

impl Function for Extreme {
    fn name(&self) -> &'static str {
        self.name
    }

    fn as_number(&self) -> Option<AsNumber> {
        let least = (self.ranked)(0) != 0;
        Some(AsNumber::Extreme { least })
    }

    fn join(&self, _with: &Gathered, words: &mut [u64], other: &[u64]) {
        for (word, other) in words.iter_mut().zip(other) {
            *word = (*word).max(*other);
        }
    }

    /// The rank of the greatest of 0 is 0; that of the least is the greatest number's.
    fn may_gather_zeroes(&self) -> bool {
        (self.ranked)(0) == 0
    }

    fn weight(&self, with: &Gathered, words: &[u64]) -> i128 {
        match first(words) {
            0 => 0,
            kept => with.number(rank((self.ranked)(kept), with.signed)),
        }
    }

    fn metric(&self, with: &Gathered, words: &[u64]) -> Metric {
        Metric::Value(self.weight(with, words))
    }
}
