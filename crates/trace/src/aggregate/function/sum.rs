//! The aggregation `sum(value)`.

use crate::aggregate::aggregation::{Aggregation, AsNumber, Function, Metric, first};

/// The aggregation `sum(value)`: adds the values up.
pub const SUM: &dyn Function = &Sum;

struct Sum;

impl Function for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn only_grows(&self) -> bool {
        true
    }

    fn as_number(&self) -> Option<AsNumber> {
        Some(AsNumber::Sum { signed: false })
    }

    /// A sum of zeroes is a result, too, and what nothing was added to looks the same.
    fn is_untouched(&self, _aggregation: &Aggregation, _words: &[u64]) -> bool {
        false
    }

    fn may_be_zero(&self) -> bool {
        true
    }

    fn weight(&self, aggregation: &Aggregation, words: &[u64]) -> i128 {
        aggregation.number(first(words))
    }

    fn metric(&self, aggregation: &Aggregation, words: &[u64]) -> Metric {
        match aggregation.signed {
            true => Metric::Value(self.weight(aggregation, words)),
            false => Metric::Sum(first(words)),
        }
    }
}
