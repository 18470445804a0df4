//! What functions that count values by buckets share.

use crate::aggregate::bars;
use crate::aggregate::gather::{Function, Gathered, Metric};
use crate::aggregate::histogram::Buckets;
use serde_json::Value as Json;

/// A function of one count for each bucket.
pub(super) struct ByBucket {
    pub(super) name: &'static str,
    /// Whether the language makes it with these parameters.
    pub(super) is_sound: fn(&[i64]) -> bool,
    /// The buckets of these parameters.
    pub(super) buckets: fn(&Gathered) -> Buckets,
}

impl Function for ByBucket {
    fn name(&self) -> &'static str {
        self.name
    }

    fn words(&self, with: &Gathered) -> u32 {
        (self.buckets)(with).count()
    }

    fn is_sound(&self, with: &Gathered) -> bool {
        (self.is_sound)(&with.parameters)
    }

    fn weight(&self, _with: &Gathered, words: &[u64]) -> i128 {
        bars::total(words)
    }

    fn text(&self, with: &Gathered, words: &[u64], out: &mut String) {
        bars::text(out, words, (self.buckets)(with));
    }

    fn json_type(&self) -> &'static str {
        "hist"
    }

    fn json(&self, with: &Gathered, words: &[u64]) -> Json {
        bars::json(words, (self.buckets)(with))
    }

    fn metric(&self, with: &Gathered, _words: &[u64]) -> Metric {
        Metric::Histogram((self.buckets)(with))
    }

    fn brief(&self, _with: &Gathered, words: &[u64]) -> Option<String> {
        Some(bars::brief(words))
    }

    fn described(&self, with: &Gathered) -> String {
        let parameters: Vec<String> = with.parameters.iter().map(i64::to_string).collect();
        format!("{}(…, {})", self.name, parameters.join(", "))
    }
}
