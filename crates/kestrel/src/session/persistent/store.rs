//! The store of persistent sessions: finding, making, locking and ending them, and removing what killed commands left. What a session can do is elsewhere.

use crate::session::lock::Lock;
pub use crate::session::lock::{Holder, Patience, Waiting};
use crate::session::pinned::{Change, PinnedSession};
use crate::session::pins::{self, Directory, STAGED};
use crate::session::state::{HookState, State};
use kestrel_catalog::attach::{AT_ONCE, close_many, is_slow, own_event};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::bpf::Pinned;
use kestrel_kernel::process::allow_open_files;
use kestrel_kernel::tracefs::Tracefs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Name of a session that is started without one.
pub const DEFAULT: &str = "main";
/// Longest name of a session.
const LONGEST: usize = 48;

/// Directory in bpffs with the sessions' directories.
const PINS: &str = "kestrel";
/// Directory of the lock files.
const LOCKS: &str = "/run/kestrel";
/// Begins the name of a session's directory while the session is made.
const NEW: &str = "+new+";
/// Begins the name of a session's directory while the session is removed.
const GONE: &str = "+gone+";

/// Result of stopping a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The session's name.
    pub name: String,
    /// Number of events, masked already, whose programs a background process ([`kestrel_kernel::process::CLOSER`]) is still detaching.
    pub detaching: usize,
}

/// Lock of the agent that keeps a session's log; released when the process ends, in whatever way.
#[derive(Debug)]
pub struct LogLock(Lock);

impl LogLock {
    /// Releases the lock and removes its file.
    pub fn release(self) {
        self.0.remove();
    }
}

/// The persistent sessions of this machine.
///
/// A session is a directory of pins in bpffs. It exists from the moment when that directory gets its name to the moment when it loses it; each is
/// one rename, so a session is never seen half made.
#[derive(Clone, Debug)]
pub struct Store {
    pub(in crate::session) host: Host,
    pins: PathBuf,
    locks: PathBuf,
    patience: Patience,
}

impl Store {
    /// Opens the store of a host, without making anything.
    ///
    /// # Errors
    /// When this host has no bpffs.
    pub fn open(host: &Host) -> Result<Self> {
        let store = Self {
            host: host.clone(),
            pins: host.mount_bpffs()?.join(PINS),
            locks: host.path(LOCKS),
            patience: Patience::default(),
        };
        store.check_owner()?;
        Ok(store)
    }

    /// Sets how long to wait for other commands that change the same sessions.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Refuses a directory that another user may have made: bpffs can be writable for every user.
    fn check_owner(&self) -> Result<()> {
        let Ok(found) = std::fs::symlink_metadata(&self.pins) else {
            return Ok(());
        };
        if found.is_dir() && found.uid() == 0 && found.mode() & 0o077 == 0 {
            return Ok(());
        }
        Err(Error::Foreign {
            path: self.pins.display().to_string(),
            owner: found.uid(),
            mode: found.mode() & 0o7777,
        })
    }

    /// Names of all sessions, in alphabetical order.
    ///
    /// # Errors
    /// When they cannot be listed, as by users other than root.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = self.entries()?;
        names.retain(|name| !name.starts_with(STAGED));
        names.sort_unstable();
        Ok(names)
    }

    /// Names of all directories, those of sessions that are being made or removed among them.
    fn entries(&self) -> Result<Vec<String>> {
        let names = Directory::at(&self.pins).names();
        if names
            .as_ref()
            .is_err_and(|error| is(error, ErrorKind::PermissionDenied))
        {
            is_root()?;
        }
        names
    }

    /// The name of the session that a command is for: the one given, or the only one there is. A session with named probes and no table of its own (as
    /// `kestrel probe add` makes it) does not count beside others and must be given by name: so adding a probe changes nothing for a user with one session.
    ///
    /// # Errors
    /// [`Error::NoSession`] when that session or any does not exist; [`Error::WhichSession`] when there are several and none is given.
    pub fn resolve(&self, name: Option<&str>) -> Result<String> {
        let names = self.names()?;
        match (name, names.as_slice()) {
            (Some(name), _) if names.iter().any(|known| known == name) => Ok(name.to_owned()),
            (None, [only]) => Ok(only.clone()),
            (None, [_, _, ..]) => {
                let mut of_tables = names.iter().filter(|name| !self.holds_only_probes(name));
                match (of_tables.next(), of_tables.next()) {
                    (Some(only), None) => Ok(only.clone()),
                    _ => Err(Error::WhichSession { names }),
                }
            }
            (wanted, _) => Err(Error::NoSession {
                wanted: wanted.map(str::to_owned),
                names,
            }),
        }
    }

    /// Whether a session has no table but that of its named probes; false for one that cannot be read, which may have others.
    fn holds_only_probes(&self, name: &str) -> bool {
        let session = PinnedSession::open(&self.host, self.directory(name), name);
        session.is_ok_and(|session| session.state().holds_only_probes())
    }

    /// Opens a session for looking at it; other commands can change it meanwhile.
    ///
    /// # Errors
    /// As [`Store::resolve`]; [`Error::State`] if another version of Kestrel made it.
    pub fn session(&self, name: Option<&str>) -> Result<PinnedSession> {
        let name = self.resolve(name)?;
        match PinnedSession::open(&self.host, self.directory(&name), &name) {
            // It may have been stopped meanwhile.
            Err(_) if !self.exists(&name) => Err(Error::NoSession {
                wanted: Some(name),
                names: self.names()?,
            }),
            other => other,
        }
    }

    /// Opens a session for changing it, with a lock that keeps other commands from changing it meanwhile. First, what a killed command left behind is
    /// removed, and what it left half done is finished.
    ///
    /// # Errors
    /// As [`Store::session`]; [`Error::Busy`] if another command does not come to an end.
    pub fn change(&self, name: Option<&str>) -> Result<Change> {
        let (name, lock) = self.lock(name)?;
        Change::begin(
            PinnedSession::open(&self.host, self.directory(&name), &name)?,
            lock,
        )
    }

    /// Resolves the name of a session and takes its lock, which keeps other commands from changing it.
    fn lock(&self, name: Option<&str>) -> Result<(String, Lock)> {
        let name = self.resolve(name)?;
        let lock = Lock::take(&self.host, &self.locks, &name, self.patience)?;
        if self.exists(&name) {
            return Ok((name, lock));
        }
        lock.remove();
        Err(Error::NoSession {
            wanted: Some(name),
            names: self.names()?,
        })
    }

    /// Takes the lock of the log of a session of this name, which one agent at a time can have; `None` while another one has it.
    ///
    /// # Errors
    /// When the lock's file cannot be made.
    pub fn log_lock(&self, name: &str) -> Result<Option<LogLock>> {
        // No session can have this name, so no session's lock has this file.
        let taken = Lock::try_take(&self.locks, &format!("{name}{STAGED}log"))?;
        Ok(taken.map(LogLock))
    }

    /// Ends a session, which is gone when this returns. The kernel may go on detaching its programs for a while; they do nothing any more.
    ///
    /// # Errors
    /// As [`Store::resolve`], and when its pins cannot be removed.
    pub fn stop(&self, name: Option<&str>) -> Result<Stopped> {
        let (name, lock) = self.lock(name)?;
        let detaching = self.end(&name, lock)?;
        Ok(Stopped { name, detaching })
    }

    /// Ends a session if the condition `that` holds for it; gives whether it did.
    ///
    /// # Errors
    /// As [`Store::stop`].
    pub(in crate::session) fn stop_if(
        &self,
        name: &str,
        that: impl Fn(&PinnedSession) -> bool,
    ) -> Result<bool> {
        let (name, lock) = self.lock(Some(name))?;
        let session = PinnedSession::open(&self.host, self.directory(&name), &name)?;
        if !that(&session) {
            return Ok(false);
        }
        drop(session);
        self.end(&name, lock)?;
        Ok(true)
    }

    fn end(&self, name: &str, lock: Lock) -> Result<usize> {
        let gone = Directory::at(self.directory(name)).rename(self.passing(GONE, name))?;
        let detaching = remove(&self.host, gone)?;
        lock.remove();
        self.tidy();
        Ok(detaching)
    }

    /// Removes what commands left that were killed while they made or removed a session. What a running command works on is locked, and is left alone.
    ///
    /// # Errors
    /// When the directories cannot be read or removed.
    pub fn sweep(&self) -> Result<()> {
        for name in self.entries()? {
            let rest = name.strip_prefix(NEW).or_else(|| name.strip_prefix(GONE));
            let Some((session, _)) = rest.and_then(|rest| rest.split_once(STAGED)) else {
                continue;
            };
            let Some(lock) = Lock::try_take(&self.locks, session)? else {
                continue;
            };
            remove(&self.host, Directory::at(self.pins.join(&name)))?;
            drop(lock);
        }
        for name in Lock::names(&self.locks)? {
            if self.exists(&name) {
                continue;
            }
            // A command that is about to make a session of this name holds its lock, or takes it again when the file has gone.
            if let Some(lock) = Lock::try_take(&self.locks, &name)?
                && !self.exists(&name)
            {
                lock.remove();
            }
        }
        self.tidy();
        Ok(())
    }

    /// Removes the directories of all sessions and locks when they are empty.
    fn tidy(&self) {
        // The kernel removes only an empty one. A command that begins a session at this moment makes it again.
        let _ = std::fs::remove_dir(&self.pins);
        let _ = std::fs::remove_dir(&self.locks);
    }

    /// Checks that a session of this name can be started, before work is done for it.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::SessionExists`].
    pub fn free(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if self.exists(name) {
            return Err(Error::SessionExists {
                name: name.to_owned(),
            });
        }
        Ok(())
    }

    /// Takes the lock for a session that must not exist yet, and makes the directory in which it is prepared for [`Store::finish`].
    pub(in crate::session) fn begin(&self, name: &str) -> Result<(Directory, Lock)> {
        check_name(name)?;
        // Where every user may make directories in bpffs, one that another user made would keep root from making its own.
        is_root()?;
        self.sweep()?;
        let lock = Lock::take(&self.host, &self.locks, name, self.patience)?;
        if self.exists(name) {
            return Err(Error::SessionExists {
                name: name.to_owned(),
            });
        }
        match self.create_staged(self.passing(NEW, name)) {
            Ok(directory) => Ok((directory, lock)),
            Err(error) => {
                lock.remove();
                self.tidy();
                Err(error)
            }
        }
    }

    /// Creates the directory in which a session is staged, and the one above it.
    fn create_staged(&self, passing: PathBuf) -> Result<Directory> {
        loop {
            match Directory::create(self.pins.clone()) {
                Err(error) if is(&error, ErrorKind::AlreadyExists) => {}
                other => drop(other?),
            }
            self.check_owner()?;
            Directory::at(&passing).destroy()?;
            match Directory::create(passing.clone()) {
                // A command that ended the last session has removed the directory above meanwhile: again.
                Err(error) if is(&error, ErrorKind::NotFound) => {}
                other => return other,
            }
        }
    }

    /// Makes a session of the directory that was prepared since [`Store::begin`], by giving it its name.
    pub(in crate::session) fn finish(&self, made: Directory, name: &str) -> Result<PathBuf> {
        let place = self.directory(name);
        made.rename(place.clone())?;
        Ok(place)
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.pins.join(name)
    }

    fn exists(&self, name: &str) -> bool {
        self.directory(name).exists()
    }

    /// Path of a session's directory while this process makes or removes the session.
    fn passing(&self, what: &str, name: &str) -> PathBuf {
        self.pins
            .join(format!("{what}{name}{STAGED}{}", std::process::id()))
    }
}

fn is_root() -> Result<()> {
    match kestrel_kernel::process::user() {
        0 => Ok(()),
        user => Err(Error::NotRoot { user }),
    }
}

fn is(error: &Error, kind: ErrorKind) -> bool {
    matches!(error, Error::Io { error, .. } if error.kind() == kind)
}

/// Switches off a session whose directory has lost its name, and removes its pins and tracefs events; gives how many events a background process goes on
/// detaching.
fn remove(host: &Host, directory: Directory) -> Result<usize> {
    if let Ok(map) = directory.map(pins::CONTROL)
        && let Ok(control) = kestrel_hook::hook::control::Control::open(map)
    {
        control.activate(kestrel_hook::hook::control::Table::NONE);
        control.switch_probes(false);
    }
    let state = directory
        .map(pins::STATE)
        .and_then(|map| State::from_map(&map, ""));
    let slow = state
        .as_ref()
        .map_or_else(|_| Vec::new(), |state| slow_links(&directory, state));
    directory.destroy()?;
    let detaching = close_many(host, slow);
    let events = state.map_or_else(|_| Vec::new(), |state| state.own_events());
    if let (false, Ok(tracefs)) = (events.is_empty(), Tracefs::open(host)) {
        own_event::remove(&tracefs, &events);
    }
    Ok(detaching)
}

/// Opens the links that the kernel takes long to detach, where they are many, for a background process to close. Otherwise the kernel would detach them as soon
/// as their pins are gone, and every process that attaches something meanwhile would wait.
fn slow_links(directory: &Directory, state: &State) -> Vec<OwnedFd> {
    // Hooks with tracefs events are left out: those events can be removed only after the links.
    let slow = |hook: &&HookState| {
        let mechanism = hook.attached.as_ref().filter(|_| hook.own_events.is_empty());
        mechanism.is_some_and(|mechanism| mechanism.called_kind(hook.multi).is_ok_and(is_slow))
    };
    let hooks = state.hooks.iter().filter(slow);
    let pins: Vec<String> = hooks
        .flat_map(|hook| (0..hook.links).map(|number| pins::link(hook.number, number)))
        .collect();
    if pins.len() <= AT_ONCE {
        return Vec::new();
    }
    allow_open_files(pins.len() as u64 + 64);
    let open = |pin: &String| match directory.open(pin) {
        Ok(Pinned::Link(link)) => Some(OwnedFd::from(link)),
        _ => None,
    };
    pins.iter().filter_map(open).collect()
}

/// Whether a text can be a session's name.
///
/// # Errors
/// [`Error::Name`] when it cannot.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= LONGEST && name.chars().all(fits) && !name.starts_with('-') {
        return Ok(());
    }
    Err(Error::Name {
        what: "session",
        name: name.to_owned(),
        shape: "letters, digits, `_` and `-`, at most 48 of them",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words() {
        for good in ["main", "a", "db-1_x", "0"] {
            check_name(good).unwrap();
        }
        for bad in ["", "a.b", "a/b", "+new", "-x", "ä", &"x".repeat(49)] {
            assert!(matches!(check_name(bad), Err(Error::Name { .. })), "{bad}");
        }
    }
}
