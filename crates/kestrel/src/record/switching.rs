//! Recordings in several directories: each is ended on a thread of its own, while the rings are drained into the next.

use super::{Recorder, begin, give, recorded};
use crate::postprocess::{Tally, counts, postprocess, tally};
use crate::session::Session;
use crate::user_symbols::UserCode;
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::Buffer;
use kestrel_kernel::Host;
use kestrel_kernel::process::set_niceness;
use kestrel_kernel::procfs::{self, ClockPair};
use kestrel_trace::ctf::directory::{self, Directory};
use kestrel_trace::ctf::write::{Writer, Written};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::{Missed, Summary};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

/// Directories that are being ended at once, beside the one that is written: then a switch has to wait.
const MAX_ENDING: usize = 4;

/// User code of processes, shared between threads: followed while a recording runs, asked when one of its directories ends.
pub(super) type SharedCode = Arc<Mutex<UserCode>>;

/// Totals of the rings and the kernel at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Counts of the rings.
    pub(super) tally: Tally,
    /// Hits that no program saw.
    pub(super) hits: u64,
    /// Events lost because their buffer was frozen.
    pub(super) frozen: u64,
}

impl Totals {
    /// Difference from an earlier moment.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut tally = self.tally.clone();
        for (of, counts) in &mut tally {
            let earlier = before.tally.get(of).copied().unwrap_or_default();
            counts.lost = counts.lost.saturating_sub(earlier.lost);
        }
        Self {
            tally,
            hits: self.hits.saturating_sub(before.hits),
            frozen: self.frozen.saturating_sub(before.frozen),
        }
    }

    /// Without the records of buffers that overwrite: they are written to the last directory, whose summary says what was overwritten.
    fn of_streams(mut self) -> Self {
        for counts in self.tally.values_mut() {
            counts.recorded = 0;
        }
        self
    }
}

/// Events lost because their buffer was frozen, so far.
pub(super) fn frozen(session: &Session) -> u64 {
    session.buffers().iter().map(Buffer::lost_frozen).sum()
}

impl Recorder {
    /// Whether a switch would have to wait for directories that are being ended.
    pub fn is_ending_many(&self) -> bool {
        self.ending_threads
            .iter()
            .filter(|thread| !thread.is_ready())
            .count()
            >= MAX_ENDING
    }

    /// Goes on in another directory, which must be empty or not exist: each record is in the one or the other. The records of pages in use are the old
    /// one's, as far as they are committed; that is counted, and names are found for it, on a thread of its own ([`Recorder::take_completed`]). Buffers that
    /// overwrite are written at the end only.
    ///
    /// # Errors
    /// When the new directory cannot be made, or counts cannot be read: then the old one is written on. As [`Recorder::poll`] where the old one cannot be written.
    pub fn switch(&mut self, path: &Path) -> Result<()> {
        let next = begin(&self.session, path, false, self.level)?;
        // Nothing that can fail comes behind this: a writer that is taken out of the recorder must be finished.
        let (totals, at_least, names, threads) = match self.end_of_directory() {
            Ok(end) => end,
            Err(error) => {
                // Nothing was written to it.
                _ = directory::discard(path);
                return Err(error);
            }
        };
        let clocks = ClockPair::now();
        self.before = self.written();
        let old = DirectoryToEnd {
            path: std::mem::replace(&mut self.path, path.to_owned()),
            writer: std::mem::replace(&mut self.writer, next),
            names,
            code: self.code.clone(),
            host: self.session.host().clone(),
            totals: totals.since(&self.counted).of_streams(),
            at_least,
            threads,
            started_ns: self.clocks.realtime,
            duration_ns: self.begun.elapsed().as_nanos() as u64,
        };
        self.counted = totals;
        self.clocks = clocks;
        self.begun = Instant::now();
        self.ending_threads.push(EndingThread::begin(old));
        Ok(())
    }

    /// Writes all that there is to the directory at hand, and asks what its summary needs: totals, whether more hits may have been missed, names of threads,
    /// the threads that the recording is about.
    fn end_of_directory(&mut self) -> Result<(Totals, bool, Processes, Option<Vec<u32>>)> {
        self.close()?;
        let (totals, at_least) = self.totals()?;
        let mut names = self.names.clone();
        names.extend(self.session.thread_names()?);
        Ok((totals, at_least, names, self.session.target_threads()?))
    }

    /// Writes all that there is to the directory at hand.
    fn close(&mut self) -> Result<()> {
        self.poll()?;
        let now = procfs::monotonic();
        let (failed, path) = (&mut self.failed, &self.path);
        let mut note = |error: kestrel_trace::Error| {
            *failed = Some(error.reason());
            error.within(path)
        };
        for (number, buffer) in recorded(&self.session) {
            let ring = buffer.ring();
            for cpu in ring.cpus() {
                if let Some(part) = ring.unread_head(cpu, now, &self.events)? {
                    let given = give(&mut self.writer, (number, cpu), ring, &part, &mut self.on_file);
                    given.map_err(&mut note)?;
                }
            }
        }
        Ok(self.writer.settle().map_err(note)?)
    }

    /// Takes the directories that have been completed since the last call, in the order of their switches.
    pub fn take_completed(&mut self) -> Vec<Result<CompletedDirectory>> {
        let mut completed = Vec::new();
        while self.ending_threads.first().is_some_and(EndingThread::is_ready) {
            completed.push(self.ending_threads.remove(0).join());
        }
        completed
    }

    /// Waits until all directories but the one at hand are completed, and takes those that were not taken.
    pub fn wait_for_all(&mut self) -> Vec<Result<CompletedDirectory>> {
        self.ending_threads.drain(..).map(EndingThread::join).collect()
    }

    /// Totals so far, and whether there may have been more hits that no program saw.
    fn totals(&self) -> Result<(Totals, bool)> {
        let missed = self.session.missed()?;
        let hits = missed.iter().filter_map(|missed| missed.count.as_ref().ok());
        let totals = Totals {
            tally: tally((0..).zip(self.session.buffers()), self.session.classes()),
            hits: hits.sum(),
            frozen: frozen(&self.session),
        };
        let unknown = missed.iter().any(|missed| missed.count.is_err());
        Ok((totals, unknown || self.session.uncounted()?.is_some()))
    }
}

/// The directory of a recording that was begun at `time`: BASE.TIME, in UTC.
pub fn directory_at(base: &Path, time: SystemTime) -> PathBuf {
    let time = humantime::format_rfc3339_millis(time).to_string();
    let time: String = time.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let leaf = base.file_name().unwrap_or_default();
    let name: OsString = [leaf, OsStr::new("."), OsStr::new(&time)].into_iter().collect();
    base.with_file_name(name)
}

/// A directory of a recording that is whole.
#[derive(Clone, Debug)]
pub struct CompletedDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Amount written.
    pub written: Written,
    /// Counts from while it was written.
    pub summary: Summary,
}

/// A directory to which no more records are written, with what its end needs.
pub(super) struct DirectoryToEnd {
    pub(super) path: PathBuf,
    pub(super) writer: Writer<Directory>,
    pub(super) names: Processes,
    pub(super) code: Option<SharedCode>,
    pub(super) host: Host,
    pub(super) totals: Totals,
    /// Whether there may have been more hits that no program saw.
    pub(super) at_least: bool,
    /// The threads that the recording is about, where it is about some.
    pub(super) threads: Option<Vec<u32>>,
    /// When it began, ns since 1970, and how long it took.
    pub(super) started_ns: u64,
    pub(super) duration_ns: u64,
}

/// A thread that ends a directory.
#[derive(Debug)]
pub(super) struct EndingThread(JoinHandle<Result<CompletedDirectory>>);

impl EndingThread {
    pub(super) fn begin(directory: DirectoryToEnd) -> Self {
        Self(std::thread::spawn(move || {
            // Back to the default niceness: the recorder's thread may run at a higher priority, which this one inherited and should not share. Failing is
            // harmless.
            let _ = set_niceness(0);
            directory.finish()
        }))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits until the thread has ended, and gives the directory.
    pub(super) fn join(self) -> Result<CompletedDirectory> {
        self.0.join().unwrap_or_else(|_| {
            Err(Error::Unsupported {
                what: "ending a directory of the recording".to_owned(),
                why: "the thread that did it failed".to_owned(),
            })
        })
    }
}

impl DirectoryToEnd {
    fn finish(mut self) -> Result<CompletedDirectory> {
        let info = self.writer.info().clone();
        let code = self.code.as_ref();
        let mut code = code.map(|code| code.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(code) = &mut code {
            // The recorder skips polling this while it is locked (`Recorder::poll`): what was mapped meanwhile is read here.
            code.poll()?;
        }
        let mut seen = postprocess(
            &self.path,
            &info.events,
            self.names,
            &self.host,
            code.as_deref_mut(),
            None,
        )?;
        drop(code);
        let summary = Summary {
            version: info.tracer_version.clone(),
            command: info.command.clone(),
            started_ns: self.started_ns,
            duration_ns: self.duration_ns,
            events: counts(&info.events, &self.totals.tally, &seen.recorded),
            frozen: Some(self.totals.frozen),
            missed: Some(Missed {
                hits: self.totals.hits,
                at_least: self.at_least,
            }),
            notes: seen.notes,
            limits: Vec::new(),
            cut_short: None,
        };
        if !seen.unwound.is_empty() {
            self.writer.keep_unwound(&seen.unwound)?;
        }
        if let Some(threads) = self.threads {
            seen.tasks.follow(threads);
        }
        self.writer.keep_tasks(&seen.tasks)?;
        Ok(CompletedDirectory {
            written: self.writer.finish(&summary, &seen.symbols, &seen.processes)?,
            path: self.path,
            summary,
        })
    }
}
