//! The aggregation `stats(value)`: how many values there were, and their sum.

use super::mean;
use crate::aggregate::aggregation::{Aggregation, AsNumber, Function, Metric, first, json_number};
use std::fmt::Write;

/// The aggregation `stats(value)`.
pub const STATS: &dyn Function = &Stats;

struct Stats;

impl Function for Stats {
    fn name(&self) -> &'static str {
        "stats"
    }

    fn as_record(&self) -> &'static [(&'static str, AsNumber)] {
        &[
            ("count", AsNumber::Sum { signed: false }),
            ("average", AsNumber::Mean),
            ("total", AsNumber::SecondSum),
        ]
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

    fn text(&self, aggregation: &Aggregation, words: &[u64], div: i128, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            " {{ .count = {}, .average = {}, .total = {} }}",
            first(words),
            mean::average(aggregation, words) / div,
            mean::total(aggregation, words)
        );
    }

    fn json_type(&self) -> &'static str {
        "stats"
    }

    fn json(&self, aggregation: &Aggregation, words: &[u64], div: i128, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"count\": ");
        json_number(first(words).into(), out);
        out.extend_from_slice(b", \"average\": ");
        json_number(mean::average(aggregation, words) / div, out);
        out.extend_from_slice(b", \"total\": ");
        json_number(mean::total(aggregation, words), out);
        out.push(b'}');
    }

    fn metric(&self, aggregation: &Aggregation, words: &[u64]) -> Metric {
        mean::metric(aggregation, words)
    }
}
