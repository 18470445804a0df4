//! Reading a trace for a question about the scheduler: what it must hold, and what is missing from it at the end.

use crate::exit::{Exit, Failure};
use crate::opening;
use crate::output::losses::report_absent;
use crate::progress;
use kestrel_trace::ctf::directory;
use kestrel_trace::print::counted;
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::sched::{MissingEvents, Present};
use kestrel_trace::summary::{Missed, Summary, UNFINISHED};
use kestrel_trace::tasks::Tasks;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// A trace that is read.
pub(super) struct Reading {
    pub(super) trace: directory::Trace,
    /// The scheduler's events that it may have.
    pub(super) present: Present,
    path: PathBuf,
    records: u64,
}

/// Gaps of a recording: lost events, missed hits, damaged packets.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Gaps {
    /// Events lost, whatever they were.
    pub(super) lost: u64,
    /// Hits that the kernel brought to no program.
    pub(super) missed: u64,
    /// Packets that are absent or damaged.
    pub(super) packets: u64,
    /// Whether figures are lower bounds for that.
    pub(super) lower_bounds: bool,
}

impl Reading {
    /// Opens a trace that has switches and, if asked for, wakeups.
    pub(super) fn open(path: &Path, wakeups: bool) -> Result<Self, Failure> {
        let trace = opening::open(path)?;
        let present = Present::of(trace.reader.info());
        if let Some(lacks) = present.lacks(wakeups) {
            return Err(missing_events(path, lacks, wakeups));
        }
        Ok(Self {
            trace,
            present,
            path: path.to_owned(),
            records: 0,
        })
    }

    /// The names of tasks that the recorder knew.
    pub(super) fn names(&mut self) -> Processes {
        std::mem::take(&mut self.trace.processes)
    }

    /// Which threads the recording is about.
    pub(super) fn tasks(&mut self) -> Tasks {
        std::mem::take(&mut self.trace.tasks)
    }

    /// Shows a bar while it is read, where no lines go to the terminal meanwhile.
    pub(super) fn with_bar(mut self, lines: bool) -> Self {
        let total = self.trace.packets;
        if !(lines && std::io::stdout().is_terminal())
            && let Some(mut bar) = progress::bar("reading")
        {
            self.trace.reader.watch(Box::new(move |done| bar(done, total)));
        }
        self
    }

    /// Reads to the end.
    pub(super) fn each(
        &mut self,
        mut take: impl FnMut(&Record<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while let Some(record) = self.trace.reader.next()? {
            self.records += 1;
            take(&record)?;
        }
        // The bar goes before tables come.
        self.trace.reader.watch(Box::new(|_| ()));
        Ok(())
    }

    /// Gaps in what was read.
    pub(super) fn gaps(&self) -> Gaps {
        let losses = self.trace.reader.losses();
        let summary = self.trace.summary.as_ref();
        let lost = losses.lost.max(summary.map_or(0, Summary::lost));
        let missed = summary.and_then(|summary| summary.missed);
        let missed = missed.map_or(0, |Missed { hits, .. }| hits);
        let packets = losses.packets_absent + losses.packets_damaged;
        Gaps {
            lost,
            missed,
            packets,
            lower_bounds: lost + missed + packets > 0,
        }
    }

    /// Reports on stderr what is missing; gives the exit code.
    pub(super) fn finish(self) -> Exit {
        let gaps = self.gaps();
        if gaps.lower_bounds {
            let parts = [
                (gaps.lost, "lost event"),
                (gaps.missed, "missed hit"),
                (gaps.packets, "absent or damaged packet"),
            ];
            let parts: Vec<String> = parts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, noun)| counted(*count, noun))
                .collect();
            eprintln!(
                "the figures are lower bounds: the trace lacks {}",
                parts.join(", ")
            );
        }
        let whole = match &self.trace.summary {
            Some(summary) => report_absent(
                summary.cut_short.as_ref(),
                &self.trace.reader.absent(summary),
                summary.recorded(),
            ),
            None => {
                eprintln!("{UNFINISHED}");
                Exit::Done
            }
        };
        if self.records == 0 {
            eprintln!("kestrel: {} holds no events", self.path.display());
            return Exit::Failed;
        }
        whole
    }
}

/// The failure of a trace that lacks events.
fn missing_events(path: &Path, lacks: MissingEvents, wakeups: bool) -> Failure {
    let wakeups = if wakeups {
        ",sched:sched_waking,sched:sched_wakeup_new"
    } else {
        ""
    };
    let failure = Failure::new(Exit::Failed, format!("{} holds {lacks}", path.display()));
    failure.hint(format!(
        "`kestrel sched record` records what is needed, or `kestrel record -a -e sched:sched_switch{wakeups}`"
    ))
}
