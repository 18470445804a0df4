//! `sum(value)`.

use crate::aggregate::gather::{Function, Gathered, Metric, first};

/// `sum(value)`.
pub const SUM: &dyn Function = &Sum;

struct Sum;

impl Function for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn weight(&self, with: &Gathered, words: &[u64]) -> i128 {
        with.number(first(words))
    }

    fn metric(&self, with: &Gathered, words: &[u64]) -> Metric {
        match with.signed {
            true => Metric::Value(self.weight(with, words)),
            false => Metric::Sum(first(words)),
        }
    }
}
