//! The aggregation `sum(value)`.

use crate::aggregate::gather::{AsNumber, Function, Gathered, Metric, first};

/// The aggregation `sum(value)`: adds the values up.
pub const SUM: &dyn Function = &Sum;

struct Sum;

impl Function for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn adds_up(&self) -> bool {
        true
    }

    fn as_number(&self) -> Option<AsNumber> {
        Some(AsNumber::Sum { signed: false })
    }

    /// A sum of zeroes is a result, too, and what nothing was added to looks the same.
    fn is_untouched(&self, _with: &Gathered, _words: &[u64]) -> bool {
        false
    }

    fn may_gather_zeroes(&self) -> bool {
        true
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
