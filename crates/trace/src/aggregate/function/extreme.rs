//! The base of `min` and `max`: the greatest of the ranks of values on each CPU, and a word that is not 0 where there was one of rank 0, which alone
//! would look like nothing.

use crate::aggregate::aggregation::{Aggregation, AsNumber, Function, Metric, first, rank};

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

    fn words(&self, _aggregation: &Aggregation) -> u32 {
        2
    }

    /// Traces of earlier versions have no second word.
    fn had_words(&self, words: usize) -> bool {
        words == 1
    }

    fn as_number(&self) -> Option<AsNumber> {
        let least = (self.ranked)(0) != 0;
        Some(AsNumber::Extreme { least })
    }

    fn join(&self, _aggregation: &Aggregation, words: &mut [u64], other: &[u64]) {
        for (word, other) in words.iter_mut().zip(other) {
            *word = (*word).max(*other);
        }
    }

    fn weight(&self, aggregation: &Aggregation, words: &[u64]) -> i128 {
        match self.is_untouched(aggregation, words) {
            true => 0,
            false => aggregation.number(rank((self.ranked)(first(words)), aggregation.signed)),
        }
    }

    fn metric(&self, aggregation: &Aggregation, words: &[u64]) -> Metric {
        Metric::Value(self.weight(aggregation, words))
    }
}
