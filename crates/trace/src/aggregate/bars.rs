//! Histograms as bars of text and as JSON.

use super::gather::json_number;
use super::histogram::{Buckets, Label};
use crate::print::counted;
use serde_json::{Map, Value as Json};
use std::fmt::Write;

/// Characters of the longest bar.
const BAR: u64 = 52;

/// How many values there are.
pub(super) fn total(counts: &[u64]) -> i128 {
    counts.iter().map(|count| i128::from(*count)).sum()
}

/// In one line.
pub(super) fn brief(counts: &[u64]) -> String {
    let values = u64::try_from(total(counts)).unwrap_or(u64::MAX);
    format!("a histogram of {}", counted(values, "value"))
}

/// Appends the rows from the first bucket that holds something to the last.
pub fn text(out: &mut String, counts: &[u64], buckets: Buckets) {
    out.push('\n');
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let first = counts.iter().position(|c| *c > 0).unwrap_or(0);
    let last = counts.iter().rposition(|c| *c > 0).unwrap_or(0);
    for (index, count) in counts.iter().enumerate().take(last + 1).skip(first) {
        let length = (u128::from(*count) * u128::from(BAR) / u128::from(most)) as usize;
        let bar = "@".repeat(length);
        let label = interval(
            buckets.label(index as u32),
            !matches!(buckets, Buckets::Linear { .. }),
        );
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{label:<16}{count:>8} |{bar:<52}|");
    }
    out.push('\n');
}

/// `[4, 8)`, `[1]`, `(..., 0)`, `[100, ...)`.
fn interval(label: Label, units: bool) -> String {
    let number = |n: i128| if units { short(n) } else { n.to_string() };
    match (label.from, label.to) {
        (None, None) => "(..., ...)".to_owned(),
        (None, Some(to)) => format!("(..., {})", number(to + 1)),
        (Some(from), None) => format!("[{}, ...)", number(from)),
        (Some(from), Some(to)) if from == to && units => format!("[{}]", number(from)),
        (Some(from), Some(to)) => format!("[{}, {})", number(from), number(to + 1)),
    }
}

/// `1K`, `4M`: powers of 1024 where they divide the number.
fn short(n: i128) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let (mut n, mut unit) = (n, 0);
    while n != 0 && n % 1024 == 0 && unit + 1 < units.len() {
        n /= 1024;
        unit += 1;
    }
    format!("{n}{}", units[unit])
}

/// Buckets from the first that holds something to the last.
pub fn json(counts: &[u64], buckets: Buckets) -> Json {
    let first = counts.iter().position(|c| *c > 0).unwrap_or(counts.len());
    let last = counts.iter().rposition(|c| *c > 0).map_or(0, |last| last + 1);
    let bucket = |(index, count): (usize, &u64)| {
        let label = buckets.label(index as u32);
        let mut bucket = Map::new();
        bucket.extend(label.from.map(|from| ("min".to_owned(), json_number(from))));
        bucket.extend(label.to.map(|to| ("max".to_owned(), json_number(to))));
        bucket.insert("count".to_owned(), (*count).into());
        Json::Object(bucket)
    };
    counts
        .iter()
        .enumerate()
        .take(last)
        .skip(first)
        .map(bucket)
        .collect()
}
