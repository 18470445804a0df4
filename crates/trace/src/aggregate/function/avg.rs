//! The aggregation `avg(value)`, which keeps how many values there were, and their sum.

use super::mean;
use crate::aggregate::aggregation::{Aggregation, AsNumber, Function, Metric};

/// The aggregation `avg(value)`.
pub const AVG: &dyn Function = &Avg;

struct Avg;

impl Function for Avg {
    fn name(&self) -> &'static str {
        "avg"
    }

    fn as_number(&self) -> Option<AsNumber> {
        Some(AsNumber::Mean)
    }

    fn words(&self, _aggregation: &Aggregation) -> u32 {
        mean::WORDS
    }

    fn is_untouched(&self, _aggregation: &Aggregation, words: &[u64]) -> bool {
        mean::is_untouched(words)
    }

    fn weight(&self, aggregation: &Aggregation, words: &[u64]) -> i128 {
        mean::average(aggregation, words)
    }

    fn json_type(&self) -> &'static str {
        "stats"
    }

    fn metric(&self, aggregation: &Aggregation, words: &[u64]) -> Metric {
        mean::metric(aggregation, words)
    }
}
