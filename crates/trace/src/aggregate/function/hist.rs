//! `hist(value[, bits])`: a count for each power of two, cut into 2^bits parts.

use crate::aggregate::bars;
use crate::aggregate::gather::{Function, Gathered, Metric};
use crate::aggregate::histogram::Buckets;
use serde_json::Value as Json;

/// `hist(value[, bits])`.
pub const HIST: &dyn Function = &Hist;

struct Hist;

fn buckets(with: &Gathered) -> Buckets {
    Buckets::Powers {
        bits: with.parameter(0) as u8,
    }
}

impl Function for Hist {
    fn name(&self) -> &'static str {
        "hist"
    }

    fn words(&self, with: &Gathered) -> u32 {
        buckets(with).count()
    }

    fn is_sound(&self, with: &Gathered) -> bool {
        matches!(with.parameters.as_slice(), [bits] if (0..=i64::from(Buckets::MOST_BITS)).contains(bits))
    }

    fn weight(&self, _with: &Gathered, words: &[u64]) -> i128 {
        bars::total(words)
    }

    fn text(&self, with: &Gathered, words: &[u64], out: &mut String) {
        bars::text(out, words, buckets(with));
    }

    fn json_type(&self) -> &'static str {
        "hist"
    }

    fn json(&self, with: &Gathered, words: &[u64]) -> Json {
        bars::json(words, buckets(with))
    }

    fn metric(&self, with: &Gathered, _words: &[u64]) -> Metric {
        Metric::Histogram(buckets(with))
    }

    fn brief(&self, _with: &Gathered, words: &[u64]) -> Option<String> {
        Some(bars::brief(words))
    }

    fn described(&self, with: &Gathered) -> String {
        format!("hist(…, {})", with.parameter(0))
    }
}
