//! Aggregations of maps, `@x[keys] = count()`: a function with its parameters, what it keeps on each CPU, how CPUs are joined, and how that is shown; the
//! functions themselves are `function`'s.

use super::histogram::Buckets;
use crate::print::{signed, whole};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt::{self, Write as _};

/// Reduction of the CPUs' words to one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsNumber {
    /// The sum of the first words.
    Sum {
        /// Whether it is signed whatever the values are.
        signed: bool,
    },
    /// The sum of the second words.
    SecondSum,
    /// The sum of the second words by that of the first ones.
    Mean,
    /// The greatest rank; ranks of `min` are inverted, so that its least value has the greatest.
    Extreme {
        /// Whether the least value has the greatest rank.
        least: bool,
    },
}

/// A map function (`count`, `hist`): values become words of 64 bits on each CPU, which are 0 at first.
pub trait Function: Sync {
    /// The name in the language.
    fn name(&self) -> &'static str;

    /// Words that it keeps on each CPU.
    fn words(&self, _aggregation: &Aggregation) -> u32 {
        1
    }

    /// Whether an earlier version kept so many words.
    fn had_words(&self, _words: usize) -> bool {
        false
    }

    /// Whether the language makes it with these parameters: a trace's file may say anything.
    fn is_sound(&self, aggregation: &Aggregation) -> bool {
        aggregation.parameters.is_empty()
    }

    /// Reduction of what all CPUs keep to one number, for handlers that read it; none where there is no such number.
    fn as_number(&self) -> Option<AsNumber> {
        None
    }

    /// The numbers that are its value together, by name, for handlers that read it; empty where it is one number or cannot be read.
    fn as_record(&self) -> &'static [(&'static str, AsNumber)] {
        &[]
    }

    /// Whether its numbers only grow, so that their rate can be shown.
    fn only_grows(&self) -> bool {
        false
    }

    /// Whether code that counts in uses BPF-to-BPF functions: to find a bucket.
    fn takes_functions(&self) -> bool {
        false
    }

    /// Adds what another CPU has to what there is.
    fn join(&self, _aggregation: &Aggregation, words: &mut [u64], other: &[u64]) {
        for (word, other) in words.iter_mut().zip(other) {
            *word = word.wrapping_add(*other);
        }
    }

    /// Makes dates of times of the kernel's monotonic clock, which are `offset` ns before them.
    fn to_dates(&self, _aggregation: &Aggregation, _words: &mut [u64], _offset: i64) {}

    /// Whether no value has come: the one element of a map without keys exists before the first.
    fn is_untouched(&self, _aggregation: &Aggregation, words: &[u64]) -> bool {
        words.iter().all(|word| *word == 0)
    }

    /// Whether the words may be 0 although there were values, as with `sum(0)`.
    fn may_be_zero(&self) -> bool {
        false
    }

    /// Whether an element without values is shown: a histogram has no buckets then.
    fn shows_empty(&self) -> bool {
        true
    }

    /// Sort weight of keys.
    fn weight(&self, aggregation: &Aggregation, words: &[u64]) -> i128;

    /// Text behind the colon, up to the end of the line or over several lines; numbers divided by `div`, at least 1.
    fn text(&self, aggregation: &Aggregation, words: &[u64], div: i128, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, " {}", self.weight(aggregation, words) / div);
    }

    /// The type of a map of it in JSON.
    fn json_type(&self) -> &'static str {
        "map"
    }

    /// The value in JSON, with bpftrace's blanks.
    fn json(&self, aggregation: &Aggregation, words: &[u64], div: i128, out: &mut Vec<u8>) {
        json_number(self.weight(aggregation, words) / div, out);
    }

    /// The metric form.
    fn metric(&self, aggregation: &Aggregation, words: &[u64]) -> Metric;

    /// The value in one line, for overviews; `None` where [`Function::text`] is one line.
    fn brief(&self, _aggregation: &Aggregation, _words: &[u64]) -> Option<String> {
        None
    }

    /// The use with these parameters, for messages.
    fn described(&self, _aggregation: &Aggregation) -> String {
        format!("{}()", self.name())
    }
}

/// A value as a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub enum Metric {
    /// A count of events.
    Count(u64),
    /// A sum that only grows.
    Sum(u64),
    /// A number that may fall, too.
    Value(i128),
    /// A sum, and of how many.
    Mean { count: u64, sum: i128 },
    /// The words are counts of these buckets.
    Histogram(Buckets),
}

/// An aggregation as a map keeps it: a function and its parameters.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregation {
    /// The map function, such as `count`.
    pub function: FunctionRef,
    /// Whether its numbers are signed.
    pub signed: bool,
    /// Constants of its use: a histogram's borders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<i64>,
}

/// An aggregating function, by reference to its row.
#[derive(Clone, Copy)]
pub struct FunctionRef(pub(super) &'static dyn Function);

impl Aggregation {
    /// A function of numbers.
    pub fn new(function: &'static dyn Function, signed: bool) -> Self {
        Self::with(function, signed, Vec::new())
    }

    /// A function with parameters.
    pub fn with(function: &'static dyn Function, signed: bool, parameters: Vec<i64>) -> Self {
        Self {
            function: FunctionRef(function),
            signed,
            parameters,
        }
    }

    /// A parameter, 0 where there is none.
    pub fn parameter(&self, index: usize) -> i64 {
        self.parameters.get(index).copied().unwrap_or_default()
    }

    /// Whether both may add to the same map: signs may differ.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.function == other.function && self.parameters == other.parameters
    }

    /// A word as a number of its sign.
    pub(super) fn number(&self, word: u64) -> i128 {
        if self.signed {
            i128::from(word as i64)
        } else {
            i128::from(word)
        }
    }
}

impl fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed = if self.signed { ", signed" } else { "" };
        write!(f, "{}{signed}", self.function.described(self))
    }
}

impl std::ops::Deref for FunctionRef {
    type Target = dyn Function;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for FunctionRef {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for FunctionRef {}

impl fmt::Debug for FunctionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for FunctionRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The first word of a function.
pub(super) fn first(words: &[u64]) -> u64 {
    words.first().copied().unwrap_or_default()
}

/// A number as bpftrace has it in JSON.
pub(super) fn json_number(n: i128, out: &mut Vec<u8>) {
    match (i64::try_from(n), u64::try_from(n)) {
        (_, Ok(n)) => whole(n, out),
        (Ok(n), _) => signed(n, out),
        _ => out.extend_from_slice(b"null"),
    }
}

/// Rank of a value for `min` and `max`: an unsigned number, in the same order as the values.
pub fn rank(value: u64, signed: bool) -> u64 {
    if signed { value ^ 1 << 63 } else { value }
}
