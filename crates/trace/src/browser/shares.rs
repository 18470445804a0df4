//! Shares of time that each thread ran, could run or was blocked, and each CPU ran threads, by buckets of time: of every state, whatever else is kept of it. Buckets double
//! their width where there would be too many.

use super::columns::Columns;
use foldhash::fast::RandomState;
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// Buckets that are kept at most.
const KEPT: usize = 400_000;

/// Buckets that one state goes over at most.
const SPANNED: u64 = 4096;

/// The states that are distinguished: running, runnable, blocked.
const KINDS: usize = 3;

/// Owner of a row of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Thread(u32),
    Cpu(u32),
}

/// Buckets with something in them.
#[derive(Debug)]
pub(super) struct Shares {
    begin_ns: u64,
    /// The width of a bucket is two to the power of this, ns.
    shift: u32,
    buckets: HashMap<(u32, u64), [u64; KINDS], RandomState>,
}

impl Row {
    /// Threads and CPUs in one column: even and odd.
    fn number(self) -> u32 {
        match self {
            Self::Thread(place) => place * 2,
            Self::Cpu(cpu) => cpu * 2 + 1,
        }
    }
}

impl Shares {
    pub(super) fn new(begin_ns: u64) -> Self {
        Self {
            begin_ns,
            shift: 13,
            buckets: HashMap::default(),
        }
    }

    /// Adds the time from `begin_ns` to `end_ns`, of a kind.
    pub(super) fn add(&mut self, row: Row, begin_ns: u64, end_ns: u64, kind: usize) {
        let (from, to) = (
            begin_ns.saturating_sub(self.begin_ns),
            end_ns.saturating_sub(self.begin_ns),
        );
        while to.saturating_sub(from) >> self.shift > SPANNED {
            self.widen();
        }
        let mut at = from;
        while at < to {
            let bucket = at >> self.shift;
            // The last bucket that there is ends with the last time.
            let end = (at | ((1 << self.shift) - 1)).saturating_add(1).min(to);
            let sums = self.buckets.entry((row.number(), bucket)).or_default();
            sums[kind] += end - at;
            at = end;
        }
        while self.buckets.len() > KEPT && self.shift < 40 {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        for ((row, bucket), sums) in std::mem::take(&mut self.buckets) {
            let into = self.buckets.entry((row, bucket / 2)).or_default();
            into.iter_mut().zip(sums).for_each(|(into, sum)| *into += sum);
        }
    }

    /// The buckets in columns, by row and time; gives where they begin and how wide they are.
    pub(super) fn finish(self, columns: &mut Columns) -> Json {
        let mut all: Vec<_> = self.buckets.into_iter().collect();
        all.sort_unstable();
        let keys = all.iter().map(|(key, _)| *key);
        columns.numbers("share.row", keys.clone().map(|(row, _)| row.into()));
        columns.numbers("share.bucket", keys.map(|(_, bucket)| bucket.into()));
        for (kind, name) in ["share.running", "share.runnable", "share.blocked"]
            .into_iter()
            .enumerate()
        {
            columns.numbers(name, all.iter().map(|(_, sums)| sums[kind].into()));
        }
        json!({ "begin": self.begin_ns.to_string(), "width": 1_u64 << self.shift })
    }
}
