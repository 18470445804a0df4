//! `count()`.

use crate::aggregate::gather::{Function, Gathered, Metric, first};
use serde_json::Value as Json;
use std::fmt::Write;

/// `count()`.
pub const COUNT: &dyn Function = &Count;

struct Count;

impl Function for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn weight(&self, _with: &Gathered, words: &[u64]) -> i128 {
        first(words).into()
    }

    fn text(&self, _with: &Gathered, words: &[u64], out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, " {}", first(words));
    }

    fn json(&self, _with: &Gathered, words: &[u64]) -> Json {
        first(words).into()
    }

    fn metric(&self, _with: &Gathered, words: &[u64]) -> Metric {
        Metric::Count(first(words))
    }
}
