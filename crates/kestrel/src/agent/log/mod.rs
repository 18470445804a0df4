//! Logs: what stream buffers of sessions take, kept in files as traces of limited size and time; each record once, also when the agent is killed.

mod segment;
mod spool;

use super::user::User;
use crate::session::pinned::PinnedSession;
use crate::session::store::{LogLock, Store, check_name};
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::buffer::name::MESSAGES;
use kestrel_kernel::Host;
use kestrel_kernel::process::FileRights;
use kestrel_trace::files::Folder;
pub use segment::Finished;
use spool::{LogTarget, Spool};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limits of a segment, and of the segments that are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Bytes of packets; what is written at once may go beyond it.
    pub size: u64,
    /// Longest time for which one is written.
    pub time: Duration,
    /// Number of segments of a session that are kept; all of them without a number.
    pub keep: Option<usize>,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            size: 64 << 20,
            time: Duration::from_secs(3600),
            keep: None,
        }
    }
}

/// Settings of a log: limits and directory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where: a folder for each session, in that a trace for each segment.
    pub directory: PathBuf,
    /// Names of stream buffers; none: all but that of the agent's messages.
    pub buffers: Vec<String>,
    /// How files follow each other.
    pub rotation: Rotation,
    /// The user that the files belong to; without one they are the process's own.
    pub user: Option<User>,
}

/// Something to report.
#[derive(Debug)]
pub struct Note {
    /// The session that it is about.
    pub session: String,
    /// The event of the log.
    pub what: LogNews,
}

/// An event in the life of a log, as it is reported.
#[derive(Debug)]
pub enum LogNews {
    /// These buffers are kept from now on.
    Begun(Vec<String>),
    /// The session has nothing to keep.
    Nothing(String),
    /// Another agent writes the session's log.
    Taken,
    /// The file cannot be written now; the records wait in the buffers.
    Stalled(Error),
    /// The log goes on.
    GoesOn,
    /// A segment is whole.
    Finished(Finished),
    /// A segment could not be ended; it is tried again.
    NotEnded(Error),
    /// A buffer of the session has another size: the old ring is read to its end, then the new one.
    Resized,
    /// The session has ended, and its log is whole.
    Ended,
}

/// Time between two attempts to write.
const RETRY: Duration = Duration::from_secs(1);

/// The logs of all sessions.
#[derive(Debug)]
pub struct Logs {
    settings: Settings,
    host: Host,
    store: Store,
    open: BTreeMap<String, Open>,
    /// Paths that could not be removed, which was reported.
    not_removed: BTreeSet<PathBuf>,
    /// Sessions that are not logged: their identity, and whether that was reported.
    passed: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Open {
    spool: Spool,
    lock: LogLock,
    stalled: Option<Instant>,
    stall_reported: bool,
}

/// Progress of a session's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The session's name.
    pub session: String,
    /// Bytes of packets written by this agent.
    pub bytes: u64,
    /// Whether nothing can be written now.
    pub stalled: bool,
}

impl Logs {
    /// Logs in a directory, which is made if it is not there. What an agent that was killed left unfinished there is ended.
    ///
    /// # Errors
    /// When it cannot be made, or the user may not write to it.
    pub fn open(settings: Settings, host: &Host) -> Result<Self> {
        make(&settings.directory, settings.user.as_ref())?;
        probe(&settings)?;
        Ok(Self {
            settings,
            host: host.clone(),
            store: Store::open(host)?,
            open: BTreeMap::new(),
            not_removed: BTreeSet::new(),
            passed: BTreeMap::new(),
        })
    }

    /// Ends what agents left of sessions that are not there any more.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn clear_up(&mut self, meant: &dyn Fn(&str) -> bool, notes: &mut Vec<Note>) -> Result<()> {
        let directory = &self.settings.directory;
        let failed = Error::io("read the directory", directory.display());
        let live = self.store.names()?;
        let found = Folder::find(directory).and_then(|found| found.map_or(Ok(Vec::new()), |f| f.entries()));
        for entry in found.map_err(failed)? {
            let Ok(name) = entry.name.into_string() else {
                continue;
            };
            if !entry.is_folder || check_name(&name).is_err() || live.contains(&name) || !meant(&name) {
                continue;
            }
            let Some(lock) = self.store.log_lock(&name)? else {
                continue; // another agent is at it
            };
            let target = self.target(&name);
            let ended = as_user(target.user.as_ref(), || {
                spool::recover(&target, None, &Default::default)
            });
            match ended {
                Ok(endings) => {
                    let done = endings.into_iter().map(spool::Ended::join);
                    note_ended(&name, done, &mut self.not_removed, notes);
                }
                Err(error) => notes.push(note(&name, LogNews::NotEnded(error))),
            }
            lock.release();
        }
        Ok(())
    }

    fn target(&self, session: &str) -> LogTarget {
        LogTarget {
            folder: self.settings.directory.join(session),
            rotation: self.settings.rotation,
            user: self.settings.user.clone(),
            host: self.host.clone(),
        }
    }

    /// Begins the logs of sessions that came, ends those of sessions that went; `meant` says which are meant at all.
    ///
    /// # Errors
    /// When sessions cannot be listed.
    pub fn find(&mut self, meant: &dyn Fn(&str) -> bool, notes: &mut Vec<Note>) -> Result<()> {
        let names = self.store.names()?;
        let mut there = BTreeMap::new();
        for name in names.into_iter().filter(|name| meant(name)) {
            // It may have gone since it was listed.
            if let Ok(session) = self.store.session(Some(&name)) {
                there.insert(name, session);
            }
        }
        let same = |uuid: &str, name: &str| {
            there
                .get(name)
                .is_some_and(|s: &PinnedSession| s.state().uuid == uuid)
        };
        let gone = self
            .open
            .iter()
            .filter(|(name, open)| !same(open.spool.uuid(), name));
        for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            if let Some(mut open) = self.open.remove(&name) {
                let done = open.spool.close(true);
                note_ended(&name, done, &mut self.not_removed, notes);
                notes.push(note(&name, LogNews::Ended));
                open.lock.release();
            }
        }
        self.passed.retain(|name, uuid| same(uuid, name));
        for (name, session) in there {
            self.go_on(&name, session, notes);
        }
        Ok(())
    }

    /// Begins a session's log, if it is not kept already, or goes on with it in the rings that its buffers have now, and in those that it did not have then.
    fn go_on(&mut self, name: &str, session: PinnedSession, notes: &mut Vec<Note>) {
        if let Some(open) = self.open.get_mut(name) {
            if open.spool.uuid() != session.state().uuid {
                return; // ended, and another one begun: the next look for sessions finds it
            }
            let resized = open.spool.is_resized(session.state());
            let others = wanted(&session, &self.settings.buffers);
            let others = others.is_ok_and(|places| places.iter().any(|place| !open.spool.takes(*place)));
            if !resized && !others {
                open.spool.settle(session.state());
                return;
            }
            if let Some(mut open) = self.open.remove(name) {
                let done = open.spool.close(false);
                note_ended(name, done, &mut self.not_removed, notes);
                open.lock.release();
            }
            if resized {
                notes.push(note(name, LogNews::Resized));
            }
        }
        self.begin(name, session, notes);
    }

    fn begin(&mut self, name: &str, session: PinnedSession, notes: &mut Vec<Note>) {
        let uuid = session.state().uuid.clone();
        match self.opened(name, session) {
            Ok(open) => {
                if self.passed.remove(name).is_some() {
                    notes.push(note(name, LogNews::GoesOn));
                }
                notes.push(note(name, LogNews::Begun(open.spool.buffers())));
                self.open.insert(name.to_owned(), open);
            }
            Err(what) => {
                if self.passed.insert(name.to_owned(), uuid).is_none() {
                    notes.push(note(name, what));
                }
            }
        }
    }

    fn opened(&self, name: &str, session: PinnedSession) -> std::result::Result<Open, LogNews> {
        let wanted = wanted(&session, &self.settings.buffers).map_err(LogNews::Nothing)?;
        let lock = self.store.log_lock(name).map_err(LogNews::Stalled)?;
        let lock = lock.ok_or(LogNews::Taken)?;
        let target = self.target(name);
        let made = as_user(target.user.as_ref(), || make(&target.folder, None));
        match made.and_then(|()| Spool::open(target, session, &wanted)) {
            Ok(spool) => Ok(Open {
                spool,
                lock,
                stalled: None,
                stall_reported: false,
            }),
            Err(error) => {
                lock.release();
                Err(LogNews::Stalled(error))
            }
        }
    }

    /// Writes what has come. Gives the number of pages.
    pub fn poll(&mut self, notes: &mut Vec<Note>) -> usize {
        let mut pages = 0;
        let stale = self.open.iter().filter(|(_, open)| open.spool.is_stale());
        for name in stale.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            // It may just have ended: the next look for sessions finds out.
            if let Ok(session) = self.store.session(Some(&name)) {
                self.go_on(&name, session, notes);
            }
        }
        for (name, open) in &mut self.open {
            let done = open.spool.finished();
            note_ended(name, done, &mut self.not_removed, notes);
            if open.stalled.is_some_and(|at| at.elapsed() < RETRY) {
                continue;
            }
            match open.spool.poll() {
                Ok(more) => {
                    pages += more;
                    open.stalled = None;
                    if more > 0 && std::mem::take(&mut open.stall_reported) {
                        notes.push(note(name, LogNews::GoesOn));
                    }
                }
                Err(error) => {
                    open.stalled = Some(Instant::now());
                    if !std::mem::replace(&mut open.stall_reported, true) {
                        notes.push(note(name, LogNews::Stalled(error)));
                    }
                }
            }
        }
        pages
    }

    /// How full the fullest buffer is, 0 to 1, of those that can be written.
    pub fn fill(&self) -> f64 {
        let open = self.open.values().filter(|open| open.stalled.is_none());
        open.map(|open| open.spool.fill()).fold(0.0, f64::max)
    }

    /// Descriptors to sleep on until one of the buffers fills; `None` where one of them has no bell, or one cannot be written now.
    pub fn bells(&self) -> Option<Vec<BorrowedFd<'_>>> {
        self.open.values().map(|open| open.spool.bell()).collect()
    }

    /// Progress of the logs.
    pub fn progress(&self) -> Vec<Progress> {
        let of = |(name, open): (&String, &Open)| Progress {
            session: name.clone(),
            bytes: open.spool.written(),
            stalled: open.stall_reported,
        };
        self.open.iter().map(of).collect()
    }

    /// Ends all of them, with what there is now; the next agent goes on behind it.
    pub fn close(mut self, notes: &mut Vec<Note>) {
        for (name, mut open) in std::mem::take(&mut self.open) {
            let done = open.spool.close(false);
            note_ended(&name, done, &mut self.not_removed, notes);
            open.lock.release();
        }
    }
}

/// Whether logs could be kept there, without leaving anything behind.
///
/// # Errors
/// When the directory's parent is not there, or the user may not write to it.
pub fn try_directory(settings: &Settings) -> Result<()> {
    if settings.directory.exists() {
        return probe(settings);
    }
    let parent = settings
        .directory
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let found = Folder::find(parent).and_then(|found| found.ok_or(ErrorKind::NotFound.into()));
    found
        .map(drop)
        .map_err(Error::io("create a directory in", parent.display()))
}

fn probe(settings: &Settings) -> Result<()> {
    let name = format!(".try{}", std::process::id());
    as_user(settings.user.as_ref(), || {
        let directory = Folder::find(&settings.directory).and_then(|f| f.ok_or(ErrorKind::NotFound.into()));
        let tried = directory.and_then(|directory| {
            directory.check_above()?;
            directory.own_folder(&name)?;
            directory.remove_folder(&name)
        });
        tried.map_err(Error::io("write to", settings.directory.display()))
    })
}

/// Names of a session's buffers that would be kept, of these or of all.
///
/// # Errors
/// In words: why there are none.
pub fn choose(session: &PinnedSession, names: &[String]) -> std::result::Result<Vec<String>, String> {
    let buffers = &session.state().buffers;
    let numbers = wanted(session, names)?;
    let name = |number: &u32| buffers[*number as usize].name.clone();
    Ok(numbers.iter().map(name).collect())
}

fn note(session: &str, what: LogNews) -> Note {
    Note {
        session: session.to_owned(),
        what,
    }
}

/// Adds a note on each segment that was ended; paths that could not be removed are named once.
fn note_ended(
    session: &str,
    done: impl IntoIterator<Item = Result<Finished>>,
    named: &mut BTreeSet<PathBuf>,
    notes: &mut Vec<Note>,
) {
    for one in done {
        let what = match one {
            Ok(mut finished) => {
                finished
                    .not_removed
                    .retain(|(path, _)| named.insert(path.clone()));
                LogNews::Finished(finished)
            }
            Err(error) => LogNews::NotEnded(error),
        };
        notes.push(note(session, what));
    }
}

/// Numbers of the buffers to be kept, or why there are none.
fn wanted(session: &PinnedSession, names: &[String]) -> std::result::Result<Vec<u32>, String> {
    let all = || (0u32..).zip(&session.state().buffers);
    let is_stream = |number: u32| {
        let buffer = &session.state().buffers[number as usize];
        buffer.geometry().mode == Mode::Stream && buffer.name != MESSAGES
    };
    let mut numbers = Vec::new();
    for name in names {
        match all().find(|(_, buffer)| buffer.name == *name) {
            Some((number, _)) if is_stream(number) => numbers.push(number),
            Some(_) => {
                return Err(format!(
                    "its buffer {name} overwrites; only what is declared with `mode = stream` can be kept in files"
                ));
            }
            None => {}
        }
    }
    if names.is_empty() {
        numbers = all()
            .map(|(number, _)| number)
            .filter(|n| is_stream(*n))
            .collect();
    }
    match (numbers.is_empty(), names.is_empty()) {
        (false, _) => Ok(numbers),
        (_, true) => Err("none of its buffers is a stream (`buffer NAME { mode = stream }`)".to_owned()),
        (_, false) => Err(format!("it has no buffer {}", names.join(", "))),
    }
}

/// Does something with the rights of a user to files.
fn as_user<T>(user: Option<&User>, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let _rights = user.map(|user| FileRights::of(user.uid, user.gid)).transpose()?;
    act()
}

/// Makes a directory for its owner alone, where there is none.
fn make(path: &Path, owner: Option<&User>) -> Result<()> {
    let made = Folder::above(path, false).and_then(|(above, leaf)| {
        if above.has(&leaf) {
            return above.folder(&leaf).map(drop);
        }
        let made = above.own_folder(&leaf)?;
        owner.map_or(Ok(()), |user| made.give(user.uid, user.gid))
    });
    made.map_err(Error::io("create the directory", path.display()))
}
