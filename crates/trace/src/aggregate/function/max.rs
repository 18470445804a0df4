//! `max(value)`: the greatest of what [`rank`] gives is kept, so that 0 stands for nothing.

use crate::aggregate::gather::{Function, Gathered, Metric, first, json_number, rank};
use serde_json::Value as Json;
use std::fmt::Write;

/// `max(value)`.
pub const MAX: &dyn Function = &Max;

struct Max;

impl Function for Max {
    fn name(&self) -> &'static str {
        "max"
    }

    fn join(&self, _with: &Gathered, words: &mut [u64], other: &[u64]) {
        for (word, other) in words.iter_mut().zip(other) {
            *word = (*word).max(*other);
        }
    }

    fn weight(&self, with: &Gathered, words: &[u64]) -> i128 {
        with.number(rank(first(words), with.signed))
    }

    fn text(&self, with: &Gathered, words: &[u64], out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, " {}", self.weight(with, words));
    }

    fn json(&self, with: &Gathered, words: &[u64]) -> Json {
        json_number(self.weight(with, words))
    }

    fn metric(&self, with: &Gathered, words: &[u64]) -> Metric {
        Metric::Value(self.weight(with, words))
    }
}
