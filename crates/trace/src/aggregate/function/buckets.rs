//! Bucket-counting functions: what they share.

use crate::aggregate::aggregation::{Aggregation, Function, Metric};
use crate::aggregate::bars;
use crate::aggregate::histogram::Buckets;

/// A function of one count for each bucket.
pub(super) struct ByBucket {
    pub(super) name: &'static str,
    /// Whether the language makes it with these parameters.
    pub(super) is_sound: fn(&[i64]) -> bool,
    /// The buckets of these parameters.
    pub(super) buckets: fn(&Aggregation) -> Buckets,
}

/// Divisor of counts: those of `lhist` by nothing, as in bpftrace.
fn divisor(buckets: Buckets, div: i128) -> u64 {
    match buckets {
        Buckets::Powers { .. } => u64::try_from(div).unwrap_or(u64::MAX),
        Buckets::Linear { .. } => 1,
    }
}

impl Function for ByBucket {
    fn shows_empty(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn only_grows(&self) -> bool {
        true
    }

    fn takes_functions(&self) -> bool {
        true
    }

    fn words(&self, aggregation: &Aggregation) -> u32 {
        (self.buckets)(aggregation).count()
    }

    fn is_sound(&self, aggregation: &Aggregation) -> bool {
        (self.is_sound)(&aggregation.parameters)
    }

    fn weight(&self, _aggregation: &Aggregation, words: &[u64]) -> i128 {
        bars::total(words)
    }

    fn text(&self, aggregation: &Aggregation, words: &[u64], div: i128, out: &mut String) {
        let buckets = (self.buckets)(aggregation);
        bars::divided(out, words, buckets, divisor(buckets, div));
    }

    fn json_type(&self) -> &'static str {
        "hist"
    }

    fn json(&self, aggregation: &Aggregation, words: &[u64], div: i128, out: &mut Vec<u8>) {
        let buckets = (self.buckets)(aggregation);
        bars::json_text(words, buckets, divisor(buckets, div), out);
    }

    fn metric(&self, aggregation: &Aggregation, _words: &[u64]) -> Metric {
        Metric::Histogram((self.buckets)(aggregation))
    }

    fn brief(&self, _aggregation: &Aggregation, words: &[u64]) -> Option<String> {
        Some(bars::brief(words))
    }

    fn described(&self, aggregation: &Aggregation) -> String {
        let parameters: Vec<String> = aggregation.parameters.iter().map(i64::to_string).collect();
        format!("{}(…, {})", self.name, parameters.join(", "))
    }
}
