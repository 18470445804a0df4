//! Who writes a trace holds its directory: a lock that the kernel gives back when the process ends, however it does, and that leaves no file.

use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Who only looks holds a directory for a moment.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// A directory held.
#[derive(Debug)]
pub(super) struct Lock {
    /// None where the file system has no locks.
    file: Option<File>,
}

impl Lock {
    /// Holds a directory that is there.
    ///
    /// # Errors
    /// [`Error::Busy`] where somebody else holds it; [`Error::Io`] where it cannot be opened.
    pub(super) fn take(path: &Path) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let file = File::open(path).map_err(Error::io("open", path))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // What held it before may have put another directory there.
                Ok(()) if is_there(&file, path) => return Ok(Self { file: Some(file) }),
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                // Some file systems have no locks, or none for directories: there everybody must take care himself.
                Err(_) => return Ok(Self { file: None }),
            }
        }
        Err(Error::Busy {
            path: path.to_owned(),
        })
    }
}

impl Drop for Lock {
    /// Given back by word: a copy of the descriptor in a child that has not yet closed it holds nothing.
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // What cannot be unlocked goes with the descriptor.
            _ = flock(file, FlockOperation::Unlock);
        }
    }
}

fn is_there(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_directory_and_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let held = Lock::take(dir.path()).unwrap();
        assert!(matches!(Lock::take(dir.path()), Err(Error::Busy { .. })));
        let copy = held.file.as_ref().unwrap().try_clone().unwrap();
        drop(held);
        assert!(
            Lock::take(dir.path()).is_ok(),
            "a copy of the descriptor holds nothing"
        );
        drop(copy);
        assert!(
            fs::read_dir(dir.path()).unwrap().next().is_none(),
            "no file is left"
        );
    }
}
