//! A pass over the records of a recording in the background of the view: its progress, and its cancellation.

use super::scope::{Judge, Scope};
use crate::exit::Failure;
use crate::opening;
use kestrel_query::Background;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::record::Record;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress of a pass.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    packets: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// The packets that were read, in percent of all.
    pub(crate) fn percent(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed).max(1);
        (self.packets.load(Ordering::Relaxed) * 100 / total).min(100)
    }

    /// Cancels the pass.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// A recording read from its begin.
#[derive(Debug)]
pub(crate) struct Pass {
    /// The recording that is read.
    pub(crate) trace: Trace,
    /// Judge that selects the records.
    pub(crate) judge: Judge,
    progress: Arc<Progress>,
}

/// Records between two looks at whether the pass is still wanted.
const LOOK: u64 = 4096;

impl Pass {
    /// Opens a recording for one pass over a scope. `skip_to` is the time from which records are read.
    pub(crate) fn open(
        path: &Path,
        scope: &Scope,
        begin_ns: u64,
        skip_to: Option<u64>,
        progress: &Arc<Progress>,
    ) -> Result<Self, Failure> {
        let mut trace = opening::open_in_silence(path)?;
        progress.total.store(trace.packets, Ordering::Relaxed);
        let counter = Arc::clone(progress);
        trace.reader.watch(Box::new(move |packets| {
            counter.packets.store(packets, Ordering::Relaxed);
        }));
        let times = scope.times();
        let from = skip_to.unwrap_or(0).max(*times.start());
        if skip_to.is_some() {
            trace.reader.skip_to(from)?;
        }
        trace.reader.within(from..=*times.end());
        let judge = scope.judge(&trace, begin_ns);
        Ok(Self {
            trace,
            judge,
            progress: Arc::clone(progress),
        })
    }

    /// Calls `take` with every record and whether it is selected, until that ends the pass; false where the pass was cancelled.
    pub(crate) fn run(
        &mut self,
        mut take: impl FnMut(&Record<'_>, bool, &Background) -> AfterRecord,
    ) -> Result<bool, Failure> {
        let mut records: u64 = 0;
        while let Some(record) = self.trace.reader.next()? {
            let wanted = self.judge.wants(&record);
            if take(&record, wanted, &self.judge.background) == AfterRecord::Stop {
                return Ok(true);
            }
            records += 1;
            if records.is_multiple_of(LOOK) && self.progress.is_cancelled() {
                return Ok(false);
            }
        }
        Ok(!self.progress.is_cancelled())
    }
}

/// What follows a record in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRecord {
    /// The next record.
    GoOn,
    /// The end of the pass.
    Stop,
}
