//! Histograms written as bars of text and as JSON.

use super::aggregation::json_number;
use super::histogram::{Buckets, Label};
use crate::print::{counted, decimal, separate};
use serde_json::Value as Json;
use std::fmt::Write;

/// Characters of the longest bar.
const BAR: u64 = 52;

/// Number of values in all buckets.
pub(super) fn total(counts: &[u64]) -> i128 {
    counts.iter().map(|count| i128::from(*count)).sum()
}

/// A histogram in a few words, where a line has no room for bars.
pub(super) fn brief(counts: &[u64]) -> String {
    let values = u64::try_from(total(counts)).unwrap_or(u64::MAX);
    format!("a histogram of {}", counted(values, "value"))
}

/// Appends a histogram as rows of bars, from the first bucket that is not empty to the last.
pub fn text(out: &mut String, counts: &[u64], buckets: Buckets) {
    divided(out, counts, buckets, 1);
}

/// Appends a histogram as rows of bars, with each count divided by `div`.
pub(super) fn divided(out: &mut String, counts: &[u64], buckets: Buckets, div: u64) {
    out.push('\n');
    let div = div.max(1);
    let most = (counts.iter().copied().max().unwrap_or(0) / div).max(1);
    let first = counts.iter().position(|c| *c > 0).unwrap_or(0);
    let last = counts.iter().rposition(|c| *c > 0).map_or(0, |last| last + 1);
    for (index, count) in counts.iter().enumerate().take(last).skip(first) {
        let count = *count / div;
        let length = (u128::from(count) * u128::from(BAR) / u128::from(most)) as usize;
        let bar = "@".repeat(length);
        let label = interval(buckets.label(index as u32), buckets);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{label:<16}{count:>8} |{bar:<52}|");
    }
    out.push('\n');
}

/// The label of a bucket: `[4, 8)`, `[1]`, `(..., 0)`, `[100, ...)`.
fn interval(label: Label, buckets: Buckets) -> String {
    let number = |n: i128| match buckets {
        Buckets::Powers { bits } => power(n, bits),
        Buckets::Linear { step, .. } if step % 1024 != 0 => n.to_string(),
        Buckets::Linear { .. } => mega(n),
    };
    match (label.from, label.to) {
        (None, None) => "(..., ...)".to_owned(),
        (None, Some(to)) => format!("(..., {})", number(to + 1)),
        (Some(from), None) => format!("[{}, ...)", number(from)),
        (Some(from), Some(to)) if from == to => format!("[{}]", number(from)),
        (Some(from), Some(to)) => format!("[{}, {})", number(from), number(to + 1)),
    }
}

/// The border of a bucket where powers of two are cut into `2^bits` parts, in the largest unit (a power of 1024) that is not above the bucket's width: `1K`, `1152`.
fn power(n: i128, bits: u8) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let width = n.max(1).ilog2().saturating_sub(bits.into());
    let decade = (width / 10) as usize;
    format!("{}{}", n >> (10 * decade), units.get(decade).unwrap_or(&""))
}

/// The border of a bucket where the step is a multiple of 1024: `4K`, `1M`.
fn mega(n: i128) -> String {
    const KILO: i128 = 1024;
    const MEGA: i128 = KILO * KILO;
    match n {
        0 => "0".to_owned(),
        n if n % MEGA == 0 => format!("{}M", n / MEGA),
        n if n % KILO == 0 => format!("{}K", n / KILO),
        n => n.to_string(),
    }
}

/// A histogram as JSON: the buckets from the first that is not empty to the last.
pub fn json(counts: &[u64], buckets: Buckets) -> Json {
    let mut text = Vec::new();
    json_text(counts, buckets, 1, &mut text);
    // `json_text` writes valid JSON, so parsing it cannot fail.
    serde_json::from_str(&String::from_utf8_lossy(&text)).unwrap_or_default()
}

/// Appends the buckets of a histogram as JSON, each count divided by `div`.
pub(super) fn json_text(counts: &[u64], buckets: Buckets, div: u64, out: &mut Vec<u8>) {
    let first = counts.iter().position(|c| *c > 0).unwrap_or(counts.len());
    let last = counts.iter().rposition(|c| *c > 0).map_or(0, |last| last + 1);
    out.push(b'[');
    for (index, count) in counts.iter().enumerate().take(last).skip(first) {
        separate(index - first, b",", out);
        let label = buckets.label(index as u32);
        out.push(b'{');
        for (name, border) in [("min", label.from), ("max", label.to)] {
            if let Some(border) = border {
                out.extend_from_slice(format!("\"{name}\": ").as_bytes());
                json_number(border, out);
                out.extend_from_slice(b", ");
            }
        }
        out.extend_from_slice(b"\"count\": ");
        decimal(*count / div.max(1), out);
        out.push(b'}');
    }
    out.push(b']');
}
