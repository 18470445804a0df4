//! `sum(value)`.

use crate::aggregate::gather::{Function, Gathered, Metric, first, json_number};
use serde_json::Value as Json;
use std::fmt::Write;

/// `sum(value)`.
pub const SUM: &dyn Function = &Sum;

struct Sum;

impl Function for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn weight(&self, with: &Gathered, words: &[u64]) -> i128 {
        with.number(first(words))
    }

    fn text(&self, with: &Gathered, words: &[u64], out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, " {}", self.weight(with, words));
    }

    fn json(&self, with: &Gathered, words: &[u64]) -> Json {
        json_number(self.weight(with, words))
    }

    fn metric(&self, with: &Gathered, words: &[u64]) -> Metric {
        match with.signed {
            true => Metric::Value(self.weight(with, words)),
            false => Metric::Sum(first(words)),
        }
    }
}
