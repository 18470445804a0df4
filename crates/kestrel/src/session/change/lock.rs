//! The lock of a session, by which one command at a time changes it: on a file of its own, which goes with the session; readers need none.

pub use kestrel_catalog::waiting::{Holder, Waiting};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::{Host, process};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Patience with another command that changes the same session.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Longest time to wait.
    pub time: Duration,
    /// Called once where it takes longer than a moment.
    pub report: fn(&Waiting),
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            report: |_| {},
        }
    }
}

/// Time after which waiting is reported.
const MOMENT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// A session's lock, held; the kernel gives it back when the process ends, however it does.
#[derive(Debug)]
pub(in crate::session) struct Lock {
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of a session, or answers `None` if another command holds it.
    pub(in crate::session) fn try_take(directory: &Path, session: &str) -> Result<Option<Self>> {
        let path = directory.join(format!("{session}.lock"));
        loop {
            let file = open(directory, &path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", path.display())(error)),
            }
            // The process that held it before may have removed the file: then this is a lock on nothing.
            if is_there(&file, &path) {
                return Ok(Some(Self { _file: file, path }));
            }
        }
    }

    /// Takes the lock of a session, waiting for the process that holds it.
    pub(in crate::session) fn take(
        host: &Host,
        directory: &Path,
        session: &str,
        patience: Patience,
    ) -> Result<Self> {
        let begun = Instant::now();
        let mut reported = false;
        let waiting = || Waiting {
            session: session.to_owned(),
            holder: Holder::of(host, &directory.join(format!("{session}.lock"))),
        };
        loop {
            if let Some(lock) = Self::try_take(directory, session)? {
                return Ok(lock);
            }
            if begun.elapsed() >= patience.time {
                return Err(Error::Busy {
                    waiting: waiting(),
                    seconds: patience.time.as_secs_f64(),
                });
            }
            if begun.elapsed() >= MOMENT && !std::mem::replace(&mut reported, true) {
                (patience.report)(&waiting());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Names of the sessions whose locks have a file: a command that was killed before it made anything leaves no more than that.
    pub(in crate::session) fn names(directory: &Path) -> Result<Vec<String>> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read the directory", directory.display())(error)),
        };
        let name = |entry: std::fs::DirEntry| {
            let file = entry.file_name().into_string().ok()?;
            Some(file.strip_suffix(".lock")?.to_owned())
        };
        Ok(entries.filter_map(|entry| name(entry.ok()?)).collect())
    }

    /// Gives it back, and removes its file: the session is gone.
    pub(in crate::session) fn remove(self) {
        // A file that cannot be removed is an empty one in a directory that the next boot empties.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn open(directory: &Path, path: &Path) -> Result<File> {
    loop {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(Error::io("create", directory.display()))?;
        check(directory)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path);
        match file {
            // The command that ended the last session removed the directory.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => return other.map_err(Error::io("open", path.display())),
        }
    }
}

/// Refuses a directory of another user's, or that others may write: they could take the locks away.
fn check(directory: &Path) -> Result<()> {
    let found = match std::fs::symlink_metadata(directory) {
        // The command that ended the last session removed it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(Error::io("look at", directory.display()))?,
    };
    if found.is_dir() && found.uid() == process::user() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Error::Foreign {
        path: directory.display().to_string(),
        owner: found.uid(),
        mode: found.mode() & 0o7777,
    })
}

fn is_there(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_removal_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("kestrel");
        let held = Lock::try_take(&directory, "s").unwrap().unwrap();
        assert!(Lock::try_take(&directory, "s").unwrap().is_none());
        assert!(
            Lock::try_take(&directory, "other").unwrap().is_some(),
            "each has its own"
        );
        let mut names = Lock::names(&directory).unwrap();
        names.sort_unstable();
        assert_eq!(names, ["other", "s"]);
        held.remove();
        assert!(!directory.join("s.lock").exists());
        let again = Lock::try_take(&directory, "s").unwrap();
        assert!(again.is_some());
        drop(again);
        assert!(
            Lock::try_take(&directory, "s").unwrap().is_some(),
            "dropped is free"
        );
    }

    #[test]
    fn a_waiting_command_reports_the_holder_and_gives_up() {
        let root = tempfile::tempdir().unwrap();
        let held = Lock::try_take(root.path(), "s").unwrap().unwrap();
        static REPORTED: std::sync::Mutex<Vec<Waiting>> = std::sync::Mutex::new(Vec::new());
        let patience = Patience {
            time: MOMENT + Duration::from_millis(50),
            report: |waiting| REPORTED.lock().unwrap().push(waiting.clone()),
        };
        let error = Lock::take(&Host::default(), root.path(), "s", patience)
            .unwrap_err()
            .to_string();
        let reported = REPORTED.lock().unwrap();
        assert_eq!((reported.len(), reported[0].session.as_str()), (1, "s"));
        assert!(
            error.contains("the session s") && error.contains("after 1.1 s"),
            "{error}"
        );
        // Some file systems give their files other numbers than the kernel's list of locks does.
        if let Some(holder) = &reported[0].holder {
            assert_eq!((holder.pid, holder.stopped), (std::process::id(), false));
            assert!(error.contains(&format!("process {}", holder.pid)), "{error}");
        }
        drop(held);
        assert!(Lock::take(&Host::default(), root.path(), "s", patience).is_ok());
    }

    #[test]
    fn a_lock_on_a_removed_file_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let held = Lock::try_take(root.path(), "s").unwrap().unwrap();
        let waiting = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| Lock::take(&Host::default(), root.path(), "s", Patience::default()));
            held.remove();
            waiter.join().unwrap()
        });
        assert!(waiting.is_ok());
        assert!(root.path().join("s.lock").exists(), "the waiter made it anew");
    }
}
