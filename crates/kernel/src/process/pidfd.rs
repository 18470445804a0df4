//! The end of another parent's process, seen through a pidfd: its number may be reused by then.

use crate::error::{Errno, Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A process that is not ours to wait for.
#[derive(Debug)]
pub struct Watched(OwnedFd);

impl Watched {
    /// The process of this number.
    ///
    /// # Errors
    /// [`Error::System`]: `ESRCH` where there is none, `EINVAL` or `ENOENT` for the number of a thread that leads no process, `ENOSYS` before Linux 5.3.
    pub fn open(pid: u32) -> Result<Self> {
        // SAFETY: a system call without memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
        match i32::try_from(fd) {
            // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
            Ok(fd) if fd >= 0 => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(Error::system("watch process", pid.to_string(), Errno::last())),
        }
    }

    /// Whether all of its threads have ended.
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits until all of its threads have ended, for so long at most (milliseconds are rounded up); a signal ends the wait, too. Gives whether they have.
    pub fn ends_within(&self, time: Duration) -> bool {
        let milliseconds = time.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(i32::MAX);
        let mut asked = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure of ours.
        unsafe { libc::poll(&mut asked, 1, milliseconds) == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_end_of_a_process_is_seen_before_its_parent_looks() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let watched = Watched::open(child.id()).unwrap();
        assert!(!watched.has_ended() && !watched.ends_within(Duration::from_micros(1)));
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !watched.has_ended() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(watched.has_ended());
        child.wait().unwrap();
        assert!(watched.has_ended());
        assert!(Watched::open(u32::MAX).is_err());
    }
}
