//! Traces that handlers ask for with `dump("10s")`: one at a time, numbered, the newest so many kept; written by the agent itself, as the user that it runs as.
//!
//! ```text
//! DIR/SESSION-000001/     a trace each; what is not whole yet lies beside it under a hidden name
//! ```

use super::limit::Bucket;
use crate::dump::{DumpRequest, Dumped, dump};
use crate::session::store::Store;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::procfs;
use kestrel_trace::ctf::directory;
use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// Policy for trace files of dumps.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Where they are.
    pub directory: PathBuf,
    /// Number of dumps of each session that are kept.
    pub keep: usize,
    /// Traces of one session per second, in the long run.
    pub rate: f64,
    /// Traces of one session at once.
    pub burst: u32,
}

/// Outcome of a dump request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpOutcome {
    /// The dump is being written.
    Writing,
    /// Another dump is being written: ask again later.
    Busy,
    /// Another dump waits and will hold this moment, too.
    Merged,
    /// Too many were asked for lately: left out.
    Limited,
}

/// A trace that was written, or not.
#[derive(Debug)]
pub struct Ended {
    /// The session's name.
    pub session: String,
    /// The trace that was written, or the error.
    pub outcome: Result<Dumped>,
    /// Old traces that could not be removed, each reported once: a later dump tries again.
    pub not_removed: Vec<(PathBuf, Error)>,
}

/// Result of the thread that writes a dump.
type Written = (Result<Dumped>, Vec<(PathBuf, Error)>);

/// Writes traces of buffers when handlers ask for dumps, one at a time.
#[derive(Debug)]
pub struct Dumps {
    policy: Policy,
    host: Host,
    writing: Option<(String, JoinHandle<Written>)>,
    limits: HashMap<String, Bucket>,
    /// Permitted dumps that wait, one of each session: the time of its record.
    waiting: HashMap<String, u64>,
    /// Old traces that were reported as not removed.
    reported: HashSet<PathBuf>,
}

impl Dumps {
    /// A writer of dumps that has written nothing yet. The directory is made, for the agent's user alone, where it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(policy: Policy, host: &Host) -> Result<Self> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&policy.directory);
        made.map_err(Error::io("create the directory", policy.directory.display()))?;
        Ok(Self {
            policy,
            host: host.clone(),
            writing: None,
            limits: HashMap::new(),
            waiting: HashMap::new(),
            reported: HashSet::new(),
        })
    }

    /// Begins to write what a session holds of so long before a moment (ns of CLOCK_MONOTONIC), and of what came after it.
    pub fn begin(&mut self, session: &str, before: Duration, time_ns: u64) -> DumpOutcome {
        let waited = self.waiting.get(session) == Some(&time_ns);
        if self.writing.is_some() && self.waiting.contains_key(session) && !waited {
            // A request while one dump is written and one waits is part of the one that waits.
            return DumpOutcome::Merged;
        }
        let (rate, burst) = (self.policy.rate, self.policy.burst);
        let bucket = self.limits.entry(session.to_owned());
        let bucket = bucket.or_insert_with(|| Bucket::new(rate, burst));
        if !waited && !bucket.take(procfs::monotonic()) {
            return DumpOutcome::Limited;
        }
        if self.writing.is_some() {
            self.waiting.insert(session.to_owned(), time_ns);
            return DumpOutcome::Busy;
        }
        self.waiting.remove(session);
        let since = Duration::from_nanos(procfs::monotonic().saturating_sub(time_ns)) + before;
        let (name, policy, host) = (session.to_owned(), self.policy.clone(), self.host.clone());
        let write = std::thread::spawn(move || write(&name, since, &policy, &host));
        self.writing = Some((session.to_owned(), write));
        DumpOutcome::Writing
    }

    /// The trace that was finished since the last call, if one was.
    pub fn ended(&mut self) -> Option<Ended> {
        if !self.writing.as_ref()?.1.is_finished() {
            return None;
        }
        let (session, thread) = self.writing.take()?;
        let (outcome, mut not_removed) = match thread.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        not_removed.retain(|(path, _)| self.reported.insert(path.clone()));
        Some(Ended {
            session,
            outcome,
            not_removed,
        })
    }

    /// Whether one is being written.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }
}

fn write(session: &str, since: Duration, policy: &Policy, host: &Host) -> Written {
    let there = match numbers(&policy.directory, session) {
        Ok(there) => there,
        Err(error) => return (Err(error), Vec::new()),
    };
    let number = there.last().map_or(1, |last| last + 1);
    let path = policy.directory.join(name(session, number));
    let request = DumpRequest {
        buffers: Vec::new(),
        since: Some(since),
    };
    let dumped = Store::open(host).and_then(|store| dump(&store, Some(session), &request, &path, host, None));
    let not_removed = match dumped {
        Ok(_) => remove_old(session, &there, policy),
        Err(_) => Vec::new(),
    };
    (dumped, not_removed)
}

/// Removes the oldest traces of a session behind a new one, until as many are left as are kept: those that could not be removed, each with its reason.
fn remove_old(session: &str, there: &[u64], policy: &Policy) -> Vec<(PathBuf, Error)> {
    let old = (there.len() + 1).saturating_sub(policy.keep.max(1));
    let paths = there.iter().take(old);
    let paths = paths.map(|number| policy.directory.join(name(session, *number)));
    let removed = paths.map(|path| (directory::discard(&path), path));
    removed
        .filter_map(|(removed, path)| {
            let error = Error::io("remove the old trace", path.display())(removed.err()?);
            Some((path, error))
        })
        .collect()
}

fn name(session: &str, number: u64) -> String {
    format!("{session}-{number:06}")
}

/// Numbers of a session's traces, rising.
fn numbers(directory: &Path, session: &str) -> Result<Vec<u64>> {
    let unreadable = Error::io("read the directory", directory.display());
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(&unreadable)? {
        let found = entry.map_err(&unreadable)?.file_name();
        let number = found
            .to_str()
            .and_then(|found| found.strip_prefix(session)?.strip_prefix('-'));
        let number = number.and_then(|digits| digits.parse().ok());
        numbers.extend(number.filter(|number| *found == *name(session, *number)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_known_by_session_and_number() {
        let place = tempfile::tempdir().unwrap();
        for found in [
            "a-000001",
            "a-000012",
            "a-1000000",
            "a-7",
            "a-b-000003",
            "b-000004",
            "a-000005.new",
            ".a-000006.new",
        ] {
            std::fs::create_dir(place.path().join(found)).unwrap();
        }
        assert_eq!(numbers(place.path(), "a").unwrap(), [1, 12, 1_000_000]);
        assert_eq!(numbers(place.path(), "a-b").unwrap(), [3]);
        assert!(numbers(place.path(), "c").unwrap().is_empty());
    }

    #[test]
    fn an_old_trace_with_a_foreign_file_does_not_keep_the_others() {
        let place = tempfile::tempdir().unwrap();
        let policy = Policy {
            directory: place.path().to_owned(),
            keep: 1,
            rate: 1.0,
            burst: 1,
        };
        for number in 1..=3 {
            std::fs::create_dir(place.path().join(name("a", number))).unwrap();
        }
        let foreign = place.path().join("a-000001");
        std::fs::write(foreign.join("thesis"), "text").unwrap();
        let not_removed = remove_old("a", &[1, 2, 3], &policy);
        assert_eq!(not_removed.len(), 1);
        assert_eq!(not_removed[0].0, foreign);
        assert_eq!(numbers(place.path(), "a").unwrap(), [1]);
    }
}
