//! `lhist(value, min, max, step)`: a count for each step of equal width.

use crate::aggregate::bars;
use crate::aggregate::gather::{Function, Gathered, Metric};
use crate::aggregate::histogram::Buckets;
use serde_json::Value as Json;

/// `lhist(value, min, max, step)`.
pub const LHIST: &dyn Function = &Lhist;

struct Lhist;

fn buckets(with: &Gathered) -> Buckets {
    Buckets::Linear {
        min: with.parameter(0),
        max: with.parameter(1),
        step: with.parameter(2),
    }
}

impl Function for Lhist {
    fn name(&self) -> &'static str {
        "lhist"
    }

    fn words(&self, with: &Gathered) -> u32 {
        buckets(with).count()
    }

    fn is_sound(&self, with: &Gathered) -> bool {
        matches!(with.parameters.as_slice(), [min, max, step] if *step > 0 && min < max)
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
        {
            let [min, max, step] = [0, 1, 2].map(|index| with.parameter(index));
            format!("lhist(…, {min}, {max}, {step})")
        }
    }
}
