//! Maps of handlers as metrics: numbers, means and histograms; maps of strings are left out.
//!
//! A key is the label `key`, or `key1`, `key2`, … where there are several. A histogram's buckets are those of the map, with finer ones added up to powers
//! of two. It has no `_sum`, because the map does not keep the sum of the values.

use super::text::{Family, MetricKind, Number};
use kestrel_trace::aggregate::aggregation::Metric;
use kestrel_trace::aggregate::read::{Row, RowValue, Snapshot};
use kestrel_trace::aggregate::{Buckets, ValueKind};
use kestrel_trace::print;
use kestrel_trace::symbol::Symbols;

/// Most keys of a map that are given, those with the greatest values, to limit the size of the page.
const MAX: usize = 1000;

/// Labels of keys.
const KEYS: [&str; 8] = ["key1", "key2", "key3", "key4", "key5", "key6", "key7", "key8"];

/// The families of maps.
#[derive(Debug)]
pub(super) struct Families {
    counts: Family,
    sums: Family,
    values: Family,
    means: Family,
    histograms: Family,
    keys: Family,
    lost: Family,
}

impl Default for Families {
    fn default() -> Self {
        let family = Family::new;
        Self {
            counts: family("kestrel_map_count", MetricKind::Counter, "A map of count()."),
            sums: family(
                "kestrel_map_sum",
                MetricKind::Counter,
                "A map of sum() over numbers without a sign.",
            ),
            values: family(
                "kestrel_map_value",
                MetricKind::Gauge,
                "A map of numbers: assigned ones, min(), max(), sum() over numbers with a sign.",
            ),
            means: family(
                "kestrel_map_mean",
                MetricKind::Summary,
                "A map of avg() or stats().",
            ),
            histograms: family(
                "kestrel_map_histogram",
                MetricKind::Histogram,
                "A map of hist() or lhist().",
            ),
            keys: family(
                "kestrel_map_keys",
                MetricKind::Gauge,
                "Keys of a map; of more than 1000 those with the greatest values are given.",
            ),
            lost: family(
                "kestrel_map_lost",
                MetricKind::Counter,
                "Updates of a map that were not made because there was no room.",
            ),
        }
    }
}

impl Families {
    pub(super) fn all(self) -> [Family; 7] {
        [
            self.counts,
            self.sums,
            self.values,
            self.means,
            self.histograms,
            self.keys,
            self.lost,
        ]
    }
}

/// Adds the contents of a session's map.
pub(super) fn add(session: &str, snapshot: &Snapshot, all: &mut Families) {
    let title = snapshot.ty.title();
    let labels = [("session", session), ("map", title.as_str())];
    all.keys.add(&labels, snapshot.rows.len() as u64);
    all.lost.add(&labels, snapshot.lost);
    for row in snapshot.rows.iter().rev().take(MAX) {
        let keys = keys(snapshot, row);
        let mut labels = labels.to_vec();
        labels.extend(keys.iter().map(|(name, value)| (*name, value.as_str())));
        held(&snapshot.ty.value, &row.value, &labels, all);
    }
}

fn keys(snapshot: &Snapshot, row: &Row) -> Vec<(&'static str, String)> {
    let symbols = Symbols::default();
    let shown = |value| {
        let mut text = Vec::new();
        print::value(value, &symbols, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let values: Vec<String> = row.keys(&snapshot.ty).map(shown).collect();
    match values.len() {
        1 => values.into_iter().map(|value| ("key", value)).collect(),
        _ => KEYS.into_iter().zip(values).collect(),
    }
}

fn held(kind: &ValueKind, value: &RowValue, labels: &[(&'static str, &str)], all: &mut Families) {
    match (kind, value) {
        (ValueKind::Scalar(ty), RowValue::Number(n)) => {
            let value = match kestrel_trace::value::Value::read(ty, &n.to_le_bytes()) {
                kestrel_trace::value::Value::Signed { value, .. } => Number::Whole(value.into()),
                kestrel_trace::value::Value::Unsigned { value, .. } => Number::Whole(value.into()),
                kestrel_trace::value::Value::Bool(value) => value.into(),
                _ => return,
            };
            all.values.add(labels, value);
        }
        (ValueKind::Aggregation(aggregation), RowValue::Words(words)) => {
            match aggregation.function.metric(aggregation, words) {
                Metric::Count(n) => all.counts.add(labels, n),
                Metric::Sum(n) => all.sums.add(labels, n),
                Metric::Value(n) => all.values.add(labels, Number::Whole(n)),
                Metric::Mean { count, sum } => {
                    all.means.add_part("_sum", labels, Number::Whole(sum));
                    all.means.add_part("_count", labels, count);
                }
                Metric::Histogram(buckets) => histogram(buckets, words, labels, &mut all.histograms),
            }
        }
        _ => {}
    }
}

/// Adds a histogram's cumulative counts, up to the greatest value of each bucket that ends at a power of two, or of each bucket of equal width. Buckets
/// behind the last one that is not empty are left out.
fn histogram(buckets: Buckets, counts: &[u64], labels: &[(&'static str, &str)], family: &mut Family) {
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let mut sum = 0u64;
    for (index, count) in counts.iter().enumerate() {
        sum = sum.wrapping_add(*count);
        let Some(to) = buckets.label(index as u32).to else {
            continue;
        };
        let ends = match buckets {
            Buckets::Linear { .. } => true,
            Buckets::Powers { .. } => to < 1 || (to + 1) & to == 0,
        };
        if !ends {
            continue;
        }
        let to = to.to_string();
        let labels = [labels, &[("le", to.as_str())]].concat();
        family.add_part("_bucket", &labels, sum);
        if index >= last {
            break;
        }
    }
    let all: u64 = counts.iter().fold(0, |sum: u64, count| sum.wrapping_add(*count));
    let labels = [labels, &[("le", "+Inf")]].concat();
    family.add_part("_bucket", &labels, all);
    family.add_part("_count", &labels[..labels.len() - 1], all);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::metrics::text::{Format, text};

    fn lines(buckets: Buckets, values: &[u64]) -> String {
        let mut counts = vec![0; buckets.count() as usize];
        for value in values {
            counts[buckets.index(*value) as usize] += 1;
        }
        let mut family = Family::new("h", MetricKind::Histogram, "H.");
        histogram(buckets, &counts, &[("map", "@x")], &mut family);
        text(&[family], Format::Prometheus)
    }

    #[test]
    fn histograms_are_cumulative_and_end_where_values_do() {
        let minus = -5i64 as u64;
        let coarse = lines(Buckets::Powers { bits: 0 }, &[minus, 0, 1, 5, 6, 7]);
        let expected = "# HELP h H.\n# TYPE h histogram\n\
            h_bucket{map=\"@x\",le=\"-1\"} 1\nh_bucket{map=\"@x\",le=\"0\"} 2\nh_bucket{map=\"@x\",le=\"1\"} 3\n\
            h_bucket{map=\"@x\",le=\"3\"} 3\nh_bucket{map=\"@x\",le=\"7\"} 6\nh_bucket{map=\"@x\",le=\"+Inf\"} 6\n\
            h_count{map=\"@x\"} 6\n";
        assert_eq!(coarse, expected);
        // Finer buckets give the same lines.
        assert_eq!(
            lines(Buckets::Powers { bits: 3 }, &[minus, 0, 1, 5, 6, 7]),
            expected
        );
        let linear = Buckets::Linear {
            min: 0,
            max: 20,
            step: 10,
        };
        assert_eq!(
            lines(linear, &[3, 15, 99]),
            "# HELP h H.\n# TYPE h histogram\n\
            h_bucket{map=\"@x\",le=\"-1\"} 0\nh_bucket{map=\"@x\",le=\"9\"} 1\nh_bucket{map=\"@x\",le=\"19\"} 2\n\
            h_bucket{map=\"@x\",le=\"+Inf\"} 3\nh_count{map=\"@x\"} 3\n"
        );
    }
}
