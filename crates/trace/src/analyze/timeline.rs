//! Records over time.

use crate::record::Record;
use serde::Serialize;

/// Counts over time, in buckets that double their width as the trace grows, so that neither memory nor a first pass is needed.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    begin_ns: u64,
    last_ns: u64,
    /// The width of a bucket is two to the power of this, ns.
    shift: u32,
    buckets: Vec<u64>,
}

/// The answer: equal buckets from the first record on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Time of the first record, ns of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// Time of the last record.
    pub end_ns: u64,
    /// Width of each bucket, ns.
    pub bucket_ns: u64,
    /// Records in each.
    pub counts: Vec<u64>,
}

/// Buckets at most; after halving their number, half of them.
const BUCKETS: usize = 4096;

impl Timeline {
    /// Takes a record, not older than the first.
    pub fn add(&mut self, record: &Record<'_>) {
        self.add_time(record.time_ns);
    }

    fn add_time(&mut self, time_ns: u64) {
        if self.buckets.is_empty() {
            self.begin_ns = time_ns;
        }
        self.last_ns = self.last_ns.max(time_ns);
        let since = time_ns.saturating_sub(self.begin_ns);
        while since >> self.shift >= BUCKETS as u64 {
            self.halve();
        }
        let bucket = (since >> self.shift) as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    fn halve(&mut self) {
        self.buckets = self.buckets.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.shift += 1;
    }

    /// Ends the timeline and gives its histogram.
    pub fn finish(self) -> Histogram {
        let empty = self.buckets.is_empty();
        Histogram {
            begin_ns: self.begin_ns,
            end_ns: self.last_ns,
            bucket_ns: if empty { 0 } else { 1 << self.shift },
            counts: self.buckets,
        }
    }
}

impl Histogram {
    /// The counts in `columns` buckets of equal width that just span first to last record; no count is lost, each goes
    /// to the column in which its old bucket begins.
    pub fn columns(&self, columns: usize) -> Vec<u64> {
        let mut all = vec![0; columns.max(1)];
        let span = self.counts.len().max(1);
        for (index, count) in self.counts.iter().enumerate() {
            let column = index * all.len() / span;
            all[column] += count;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_counted_in_the_bucket_of_its_time() {
        let mut timeline = Timeline::default();
        let times = (0..100_000).map(|n| 7_000_000_000 + n * 1000);
        times.clone().for_each(|time| timeline.add_time(time));
        let histogram = timeline.finish();
        assert!(histogram.counts.len() <= BUCKETS);
        let mut expected = vec![0; histogram.counts.len()];
        for time in times {
            expected[((time - histogram.begin_ns) / histogram.bucket_ns) as usize] += 1;
        }
        assert_eq!(histogram.counts, expected);
        let columns = histogram.columns(80);
        assert_eq!((columns.len(), columns.iter().sum::<u64>()), (80, 100_000));
    }
}
