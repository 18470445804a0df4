//! The lock of the process that writes a trace on its directory: the kernel releases it however the process ends, and it leaves no file.

use crate::error::{Error, Result};
use crate::files::Folder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// A process that only looks holds a directory for a moment.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// A directory held.
#[derive(Debug)]
pub(super) struct Lock {
    /// None where the file system has no locks.
    file: Option<OwnedFd>,
}

impl Lock {
    /// Holds a directory that is there.
    ///
    /// # Errors
    /// [`Error::Busy`] where another process holds it.
    pub(super) fn take(folder: &Folder, path: &Path) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            match flock(folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let file = folder.as_fd().try_clone_to_owned();
                    return Ok(Self {
                        file: Some(file.map_err(Error::io("hold", path))?),
                    });
                }
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
            // A lock that cannot be unlocked goes with the descriptor.
            _ = flock(file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_directory_and_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let take = || Lock::take(&Folder::find(dir.path()).unwrap().unwrap(), dir.path());
        let held = take().unwrap();
        assert!(matches!(take(), Err(Error::Busy { .. })));
        let copy = held.file.as_ref().unwrap().try_clone().unwrap();
        drop(held);
        assert!(take().is_ok(), "a copy of the descriptor holds nothing");
        drop(copy);
        assert!(
            std::fs::read_dir(dir.path()).unwrap().next().is_none(),
            "no file is left"
        );
    }
}
