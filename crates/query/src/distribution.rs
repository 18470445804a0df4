//! Distribution of values: count, sum, least and greatest exactly, percentiles within 0.4 %, in memory that does not grow with the number of values.

use kestrel_trace::aggregate::{Buckets, histogram_json, histogram_text};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Values that were added one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    sum: i128,
    min: i64,
    max: i64,
    /// By bucket: a group of few values takes little, one of many no more than there are buckets.
    few: BTreeMap<i32, u64>,
    /// Counts of buckets that are not negative once there are many values: in stretches of [`STRETCH`], found without a search.
    many: Vec<Option<Box<[u64; STRETCH]>>>,
}

/// Values from which on buckets are found by their numbers.
const MANY: u64 = 4096;
/// Buckets that lie together.
const STRETCH: usize = 64;

/// Each power of two is cut into so many buckets: `2^PARTS`.
const PARTS: u32 = 8;

/// A figure of a distribution by its name.
type Figure = (&'static str, fn(&Distribution) -> i128);

/// The figures that are reported, in the order of JSON: rows are sorted by them, and tables have some as columns.
pub(crate) const FIGURES: [Figure; 9] = [
    ("count", |values| values.count.into()),
    ("sum", |values| values.sum),
    ("avg", |values| values.avg().into()),
    ("min", |values| values.min.into()),
    ("max", |values| values.max.into()),
    ("p50", |values| values.percentile(500).into()),
    ("p90", |values| values.percentile(900).into()),
    ("p99", |values| values.percentile(990).into()),
    ("p99.9", |values| values.percentile(999).into()),
];

impl Distribution {
    /// Adds a value.
    pub fn add(&mut self, value: i64) {
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        }
        self.count += 1;
        self.sum += i128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let index = index(value);
        match usize::try_from(index) {
            Ok(index) if self.count > MANY => self.add_to_many(index),
            _ => *self.few.entry(index).or_default() += 1,
        }
    }

    #[inline]
    fn add_to_many(&mut self, index: usize) {
        let (stretch, place) = (index / STRETCH, index % STRETCH);
        match self.many.get_mut(stretch) {
            Some(Some(counts)) => counts[place] += 1,
            _ => {
                let stretches = self.many.len().max(stretch + 1);
                self.many.resize(stretches, None);
                self.many[stretch].get_or_insert_with(|| Box::new([0; STRETCH]))[place] += 1;
            }
        }
    }

    /// The counts of all buckets that have any, in their order; a bucket may come twice in a row.
    fn counts(&self) -> impl Iterator<Item = (i32, u64)> {
        let stretches = self.many.iter().enumerate();
        let many = stretches.flat_map(|(stretch, counts)| {
            let counts = counts.iter().flat_map(|counts| counts.iter().enumerate());
            counts.map(move |(place, count)| ((stretch * STRETCH + place) as i32, *count))
        });
        let mut few = self.few.iter().map(|(index, count)| (*index, *count)).peekable();
        let mut many = many.filter(|(_, count)| *count > 0).peekable();
        std::iter::from_fn(move || match (few.peek(), many.peek()) {
            (Some((one, _)), Some((other, _))) if one > other => many.next(),
            (Some(_), _) => few.next(),
            (None, _) => many.next(),
        })
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// The mean, rounded down.
    pub fn avg(&self) -> i64 {
        // The mean of numbers of 64 bits is one.
        self.sum.div_euclid(i128::from(self.count.max(1))) as i64
    }

    /// The least; 0 of none.
    pub fn min(&self) -> i64 {
        self.min
    }

    /// The greatest; 0 of none.
    pub fn max(&self) -> i64 {
        self.max
    }

    /// The smallest value that at least `thousandths` ‰ of the values do not exceed.
    pub fn percentile(&self, thousandths: u32) -> i64 {
        let rank = (u128::from(self.count) * u128::from(thousandths))
            .div_ceil(1000)
            .max(1);
        let mut seen = 0;
        for (index, count) in self.counts() {
            seen += u128::from(count);
            if seen >= rank {
                return least(index).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// A figure by its name: `count`, `sum`, `avg`, `min`, `max`, `p50`, `p90`, `p99` or `p99.9`.
    pub fn figure(&self, name: &str) -> Option<i128> {
        let (_, figure) = FIGURES.iter().find(|(known, _)| *known == name)?;
        Some(figure(self))
    }

    /// Counts by powers of two, for a histogram; the first is for negative values.
    fn powers(&self) -> Vec<u64> {
        let mut powers = vec![0; POWERS.count() as usize];
        for (index, count) in self.counts() {
            // A bucket lies within a power of two.
            powers[POWERS.index(least(index).cast_unsigned()) as usize] += count;
        }
        powers
    }

    /// Appends a histogram of powers of two, as the language's `hist()` has it.
    pub fn histogram(&self, out: &mut String) {
        histogram_text(out, &self.powers(), POWERS);
    }

    /// All figures, and the histogram.
    pub fn json(&self) -> Json {
        let figures = FIGURES.map(|(name, figure)| (name.to_owned(), number(figure(self))));
        let histogram = ("histogram".to_owned(), histogram_json(&self.powers(), POWERS));
        Json::Object(figures.into_iter().chain([histogram]).collect())
    }
}

const POWERS: Buckets = Buckets::Powers { bits: 0 };

/// A figure as a number; one that no program could read exactly as a text.
fn number(sum: i128) -> Json {
    i64::try_from(sum).map_or_else(|_| sum.to_string().into(), Json::from)
}

/// The bucket of a value: those of negative values mirror those of positive ones.
fn index(value: i64) -> i32 {
    let of = |value: u64| match value.checked_ilog2() {
        Some(log) if log > PARTS => {
            let up = log - PARTS;
            ((up << PARTS) as u64 + (value >> up)) as i32
        }
        _ => value as i32,
    };
    match value < 0 {
        true => -of(value.unsigned_abs()),
        false => of(value.cast_unsigned()),
    }
}

/// The value of a bucket that is nearest to 0: sizes and times are often round.
fn least(index: i32) -> i64 {
    let of = |index: u64| {
        let up = (index >> PARTS).saturating_sub(1);
        (index - (up << PARTS)) << up
    };
    let value = i128::from(of(index.unsigned_abs().into()));
    let value = if index < 0 { -value } else { value };
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn figures_are_those_of_the_sorted_values(values in prop::collection::vec((any::<i64>(), 0..63u32), 1..300), times in prop::sample::select(vec![1usize, 60])) {
            let mut values: Vec<i64> = values.into_iter().map(|(value, shift)| value >> shift).collect();
            // Many values are counted in another way than few.
            values = values.repeat(times);
            let mut spread = Distribution::default();
            values.iter().for_each(|value| spread.add(*value));
            values.sort_unstable();
            let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
            prop_assert_eq!((spread.count(), spread.sum()), (values.len() as u64, sum));
            prop_assert_eq!((spread.min(), spread.max()), (values[0], values[values.len() - 1]));
            let json = spread.json();
            for (name, _) in FIGURES {
                let written = json[name].to_string();
                prop_assert_eq!(written.trim_matches('"'), spread.figure(name).unwrap().to_string());
            }
            for (thousandths, name) in [(500, "p50"), (900, "p90"), (990, "p99"), (999, "p99.9")] {
                let rank = (values.len() * thousandths as usize).div_ceil(1000).max(1);
                let (exact, found) = (i128::from(values[rank - 1]), i128::from(spread.percentile(thousandths)));
                prop_assert_eq!(spread.figure(name), Some(found));
                prop_assert!((exact - found).abs() * 256 <= exact.abs(), "{exact} {found}");
            }
            prop_assert_eq!(spread.powers().iter().sum::<u64>(), values.len() as u64);
            let mut powers = vec![0; POWERS.count() as usize];
            values.iter().for_each(|value| powers[POWERS.index(value.cast_unsigned()) as usize] += 1);
            prop_assert_eq!(spread.powers(), powers);
        }
    }
}
