//! The aggregation `stats(value)`: how many values there were, and their sum.

use super::mean;
use crate::aggregate::gather::{AsNumber, Function, Gathered, Metric, first, json_number};
use std::fmt::Write;

/// The aggregation `stats(value)`.
pub const STATS: &dyn Function = &Stats;

struct Stats;

impl Function for Stats {
    fn name(&self) -> &'static str {
        "stats"
    }

    fn as_number(&self) -> Option<AsNumber> {
        Some(AsNumber::Mean)
    }

    fn words(&self, _with: &Gathered) -> u32 {
        mean::WORDS
    }

    fn is_untouched(&self, _with: &Gathered, words: &[u64]) -> bool {
        mean::is_untouched(words)
    }

    fn weight(&self, with: &Gathered, words: &[u64]) -> i128 {
        mean::average(with, words)
    }

    fn text(&self, with: &Gathered, words: &[u64], div: i128, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            " {{ .count = {}, .average = {}, .total = {} }}",
            first(words),
            mean::average(with, words) / div,
            mean::total(with, words)
        );
    }

    fn json_type(&self) -> &'static str {
        "stats"
    }

    fn json(&self, with: &Gathered, words: &[u64], div: i128, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"count\": ");
        json_number(first(words).into(), out);
        out.extend_from_slice(b", \"average\": ");
        json_number(mean::average(with, words) / div, out);
        out.extend_from_slice(b", \"total\": ");
        json_number(mean::total(with, words), out);
        out.push(b'}');
    }

    fn metric(&self, with: &Gathered, words: &[u64]) -> Metric {
        mean::metric(with, words)
    }
}
