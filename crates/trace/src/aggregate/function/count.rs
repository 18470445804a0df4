//! The aggregation `count()`.

use crate::aggregate::aggregation::{Aggregation, AsNumber, Function, Metric, first};

/// The aggregation `count()`.
pub const COUNT: &dyn Function = &Count;

struct Count;

impl Function for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn only_grows(&self) -> bool {
        true
    }

    fn as_number(&self) -> Option<AsNumber> {
        Some(AsNumber::Sum { signed: true })
    }

    fn weight(&self, _aggregation: &Aggregation, words: &[u64]) -> i128 {
        first(words).into()
    }

    fn metric(&self, _aggregation: &Aggregation, words: &[u64]) -> Metric {
        Metric::Count(first(words))
    }
}
