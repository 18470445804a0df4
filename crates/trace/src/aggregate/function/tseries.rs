//! `tseries(value, interval, count[, how])`: the newest intervals of time, each with one value.
//!
//! ```text
//!   words: { interval number + 1 (0: unused), value, companion } × count, then the clock offset
//! ```
//!
//! An interval's place is its number modulo `count`. The companion is the time at which the value was stored (the last one wins) or the number of values in the sum (for the average). The clock offset turns times
//! into dates.

use crate::aggregate::aggregation::{Aggregation, Function, Metric, json_number, rank};
use crate::date;
use crate::print::separate;
use std::cmp::Ordering;
use std::fmt::Write;

/// `tseries(value, interval, count[, how])`: parameters are the interval in ns, the count, and the place of `how` in [`COMBINES`]; then whether
/// times are the program's own, and the offset of the wall clock to the monotonic clock modulo the interval, in ns: so intervals begin at round wall-clock times.
pub const TSERIES: &dyn Function = &Tseries;

/// Functions that make one value of those of an interval, by their names; the first is the default.
pub const COMBINES: &[(&str, Combine)] = &[
    ("last", Combine::Last),
    ("avg", Combine::Mean),
    ("max", Combine::Max),
    ("min", Combine::Min),
    ("sum", Combine::Sum),
];
/// Words of an interval.
pub const WORDS: u32 = 3;
/// Most intervals of which each CPU has its own: what the kernel lets one value on a CPU have.
pub const MAX_PER_CPU: i64 = (crate::aggregate::state::MAX_VALUE as i64 / 8 - 1) / WORDS as i64;
/// Most intervals: the kernel makes no value of more than 4 MiB.
pub const MAX: i64 = 170_000;

/// Columns between the borders of the picture.
const WIDTH: i128 = 52;

/// Way in which the values of one interval become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of COMBINES say it")]
pub enum Combine {
    Last,
    Mean,
    Max,
    Min,
    Sum,
}

struct Tseries;

/// An interval: when it began, in ns since 1970, and its value, if there was any.
type Point = (u64, Option<i128>);

impl Combine {
    /// The way of combining values that the parameters name; [`Combine::Last`] where they name none.
    pub fn of(aggregation: &Aggregation) -> Self {
        let place = usize::try_from(aggregation.parameter(2)).unwrap_or_default();
        COMBINES.get(place).map_or(Self::Last, |(_, how)| *how)
    }
}

/// The intervals among the words.
fn parts(words: &[u64]) -> &[[u64; WORDS as usize]] {
    words.as_chunks().0
}

fn value(aggregation: &Aggregation, [_, value, beside]: [u64; 3]) -> i128 {
    match Combine::of(aggregation) {
        Combine::Mean => aggregation.number(value) / i128::from(beside.max(1)),
        Combine::Max => aggregation.number(rank(value, aggregation.signed)),
        Combine::Min => aggregation.number(rank(!value, aggregation.signed)),
        _ => aggregation.number(value),
    }
}

/// The intervals from the first that has a value to the newest, at most `count` of them.
fn points(aggregation: &Aggregation, words: &[u64]) -> Vec<Point> {
    let numbers = || {
        parts(words)
            .iter()
            .map(|part| part[0])
            .filter(|number| *number > 0)
    };
    let Some(newest) = numbers().max() else {
        return Vec::new();
    };
    let count = aggregation.parameter(1).clamp(1, MAX) as u64;
    let oldest = newest.saturating_sub(count - 1).max(1);
    let first = numbers()
        .filter(|number| *number >= oldest)
        .min()
        .unwrap_or(newest);
    let offset = words.chunks_exact(WORDS as usize).remainder().first().copied();
    let point = |number: u64| {
        let begin = (number - 1).wrapping_mul(aggregation.parameter(0).cast_unsigned());
        let part = parts(words).iter().find(|part| part[0] == number);
        let date = begin.wrapping_add(offset.unwrap_or_default());
        let date = aligned(aggregation, date);
        (date, part.map(|part| value(aggregation, *part)))
    };
    (first..=newest).map(point).collect()
}

/// Whether times are what the program says they are, rather than the kernel's.
pub fn has_own_clock(aggregation: &Aggregation) -> bool {
    aggregation.parameter(3) != 0
}

/// By how many ns times are moved before intervals are counted.
pub fn ahead(aggregation: &Aggregation) -> i64 {
    aggregation.parameter(4)
}

/// When an interval began, at a whole multiple where intervals do: the clocks may have drifted since the program was made.
fn aligned(aggregation: &Aggregation, date: u64) -> u64 {
    if aggregation.parameters.len() < 5 {
        return date;
    }
    let interval = aggregation.parameter(0).max(1).cast_unsigned();
    let date = date.wrapping_sub(ahead(aggregation).cast_unsigned());
    let past = date % interval;
    let before = date - past;
    match past < interval.div_ceil(2) {
        true => before,
        false => before.saturating_add(interval),
    }
}

fn newest(aggregation: &Aggregation, words: &[u64]) -> i128 {
    points(aggregation, words)
        .last()
        .and_then(|(_, value)| *value)
        .unwrap_or_default()
}

/// The unit of times of intervals that follow each other so quickly, and the digits behind the seconds.
fn unit(points: &[Point]) -> (&'static str, usize) {
    let ends = points.first().zip(points.last());
    let between = ends.map_or(0, |((first, _), (last, _))| last.saturating_sub(*first));
    match between / (points.len() as u64).saturating_sub(1).max(1) {
        0..1_000 => (".ns", 9),
        1_000..1_000_000 => (".us", 6),
        1_000_000..1_000_000_000 => (".ms", 3),
        _ => ("", 0),
    }
}

/// `10:41:46.700`, in the reader's time zone; the digits behind the point are cut.
fn time_of_day(ns: u64, digits: usize) -> String {
    let time = date::written("%H:%M:%S", ns, 0);
    match digits {
        0 => time,
        _ => {
            let behind = format!("{:09}", ns % 1_000_000_000);
            format!("{time}.{}", behind.get(..digits).unwrap_or_default())
        }
    }
}

/// The least and the greatest value of a picture, which differ: there is room on both sides of a single value, but unsigned numbers are not below 0.
fn range(points: &[Point], signed: bool) -> (i128, i128) {
    let values = || points.iter().filter_map(|(_, value)| *value);
    let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    match (least == most, least) {
        (false, _) => (least, most),
        (true, 0) if !signed => (0, 1),
        (true, _) => (least - 1, most + 1),
    }
}

impl Function for Tseries {
    fn shows_empty(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "tseries"
    }

    fn words(&self, aggregation: &Aggregation) -> u32 {
        aggregation.parameter(1).clamp(1, MAX) as u32 * WORDS + 1
    }

    fn is_sound(&self, aggregation: &Aggregation) -> bool {
        let (&[interval, count, how, ref rest @ ..], 3..=5) =
            (aggregation.parameters.as_slice(), aggregation.parameters.len())
        else {
            return false;
        };
        let ahead = rest.get(1).copied().unwrap_or_default();
        (0..interval).contains(&ahead)
            && (1..=MAX).contains(&count)
            && (0..COMBINES.len() as i64).contains(&how)
    }

    fn join(&self, aggregation: &Aggregation, words: &mut [u64], other: &[u64]) {
        let mine = words.as_chunks_mut::<{ WORDS as usize }>().0;
        for (mine, other) in mine.iter_mut().zip(parts(other)) {
            match (mine[0].cmp(&other[0]), Combine::of(aggregation)) {
                (Ordering::Less, _) => *mine = *other,
                (Ordering::Greater, _) => {}
                (Ordering::Equal, Combine::Mean | Combine::Sum) => {
                    mine[1] = mine[1].wrapping_add(other[1]);
                    mine[2] = mine[2].wrapping_add(other[2]);
                }
                (Ordering::Equal, Combine::Max | Combine::Min) => mine[1] = mine[1].max(other[1]),
                (Ordering::Equal, _) if other[2] > mine[2] => *mine = *other,
                (Ordering::Equal, _) => {}
            }
        }
    }

    fn to_dates(&self, aggregation: &Aggregation, words: &mut [u64], offset: i64) {
        // Times of a clock of the program's own are dates.
        if let Some(last) = words.last_mut().filter(|_| !has_own_clock(aggregation)) {
            *last = offset.cast_unsigned();
        }
    }

    fn is_untouched(&self, _aggregation: &Aggregation, words: &[u64]) -> bool {
        parts(words).iter().all(|part| part[0] == 0)
    }

    fn weight(&self, aggregation: &Aggregation, words: &[u64]) -> i128 {
        newest(aggregation, words)
    }

    fn text(&self, aggregation: &Aggregation, words: &[u64], _div: i128, out: &mut String) {
        let points = points(aggregation, words);
        if points.is_empty() {
            out.push_str("\n<no data>\n");
            return;
        }
        let (least, most) = range(&points, aggregation.signed);
        let column = |value: i128| (value - least).saturating_mul(WIDTH) / (most - least);
        // bpftrace's, a column wider than that of values.
        let zero = (least < 0 && most > 0).then(|| (-least).saturating_mul(WIDTH + 1) / (most - least));
        let (unit, digits) = unit(&points);
        // Of the times, and a blank.
        let margin = 9 + digits + usize::from(digits > 0);
        let ends = format!("{:margin$}{least:<26}{most:>27}\n", "");
        let line = "_".repeat(WIDTH as usize - 1);
        let title = format!("hh:mm:ss{unit}");
        // Writing to a string cannot fail.
        let _ = write!(out, "\n{ends}{title:<margin$}|{line}|\n");
        for (begin, value) in &points {
            let at = value.map(column);
            let row: String = (0..=WIDTH)
                .map(|place| match place {
                    _ if at == Some(place) => '*',
                    0 | WIDTH => '|',
                    _ if zero == Some(place) => '.',
                    _ => ' ',
                })
                .collect();
            let value = value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            let _ = writeln!(out, "{} {row} {value}", time_of_day(*begin, digits));
        }
        let _ = writeln!(out, "{:margin$}v{line}v\n{ends}", "");
    }

    fn json_type(&self) -> &'static str {
        "tseries"
    }

    fn json(&self, aggregation: &Aggregation, words: &[u64], _div: i128, out: &mut Vec<u8>) {
        let date = |ns: u64| date::written("%Y-%m-%d ", ns, 0) + &time_of_day(ns, 9);
        let points = points(aggregation, words);
        let values = points
            .iter()
            .filter_map(|(begin, value)| Some((*begin, (*value)?)));
        out.push(b'[');
        for (index, (begin, value)) in values.enumerate() {
            separate(index, b",", out);
            out.extend_from_slice(format!("{{\"interval_start\":\"{}\",\"value\":", date(begin)).as_bytes());
            json_number(value, out);
            out.push(b'}');
        }
        out.push(b']');
    }

    fn metric(&self, aggregation: &Aggregation, words: &[u64]) -> Metric {
        Metric::Value(newest(aggregation, words))
    }

    fn brief(&self, aggregation: &Aggregation, words: &[u64]) -> Option<String> {
        let count = points(aggregation, words).len() as u64;
        let intervals = crate::print::counted(count, "interval");
        Some(format!("{intervals}, the newest {}", newest(aggregation, words)))
    }

    fn described(&self, aggregation: &Aggregation) -> String {
        let [interval, count] = [0, 1].map(|index| aggregation.parameter(index));
        let how = COMBINES.iter().find(|(_, how)| *how == Combine::of(aggregation));
        let how = how.map_or("", |(word, _)| word);
        format!("tseries(…, {interval}ns, {count}, \"{how}\")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_without_values_has_no_picture() {
        let aggregation = Aggregation::with(TSERIES, false, vec![70, 4, 0]);
        let mut words = vec![0; aggregation.function.words(&aggregation) as usize];
        let text = |words: &[u64]| {
            let mut out = String::new();
            TSERIES.text(&aggregation, words, 1, &mut out);
            out
        };
        assert_eq!(text(&words), "\n<no data>\n");
        words[..3].copy_from_slice(&[7, 5, 0]);
        assert!(text(&words).contains("hh:mm:ss"));
    }

    #[test]
    fn intervals_begin_at_whole_multiples_of_the_date() {
        // The date was 1,000 ns ahead when the program was made, and is 3 less now, or 3 more.
        let aggregation = Aggregation::with(TSERIES, false, vec![70, 4, 0, 0, 1_000 % 70]);
        assert!(aggregation.function.is_sound(&aggregation));
        let number = (5 * 70 + 1_000 % 70) / 70 + 1;
        for offset in [997, 1_003] {
            let mut words = vec![0; aggregation.function.words(&aggregation) as usize];
            words[..3].copy_from_slice(&[number, 7, 0]);
            aggregation.function.to_dates(&aggregation, &mut words, offset);
            assert_eq!(points(&aggregation, &words), [(1_330, Some(7))]);
        }
        for wrong in [
            vec![70, 4, 0, 0, 70],
            vec![70, 4, 0, 0, -1],
            vec![70, 4, 0, 0, 1, 1],
        ] {
            assert!(!TSERIES.is_sound(&Aggregation::with(TSERIES, false, wrong)));
        }
    }
}
