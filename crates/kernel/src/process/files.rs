//! The limit of open files of this process: programs, links and maps are files, and a session of a thousand events has thousands; those that it was
//! started with.

use crate::error::{Errno, Error, Result};
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};

/// Sees to it that so many files may be open at once, as far as this process may: beyond the soft limit as anybody, beyond the hard one with
/// `CAP_SYS_RESOURCE`. Children that are started later inherit it. Gives the limit as it is then.
pub fn allow_open_files(wanted: u64) -> u64 {
    let Some(before) = limit() else { return 0 };
    if before.rlim_cur >= wanted {
        return before.rlim_cur;
    }
    if before.rlim_max < wanted && set(wanted, wanted) {
        return wanted;
    }
    let soft = wanted.min(before.rlim_max);
    match set(soft, before.rlim_max) {
        true => soft,
        false => before.rlim_cur,
    }
}

/// A file that this process was started with, by its number: another descriptor of it, so that closing it leaves the first one open.
///
/// # Errors
/// [`Error::System`]: `EBADF` where there is none.
pub fn inherited(number: i32) -> Result<File> {
    // SAFETY: the call has numbers only, and gives a descriptor that nothing else has.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    match fd {
        // SAFETY: it was just made, and has no other owner.
        0.. => Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) })),
        _ => Err(Error::system(
            "use",
            format!("file descriptor {number}"),
            Errno::last(),
        )),
    }
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a structure of this process for the kernel to fill in.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (answer == 0).then_some(limit)
}

fn set(soft: libc::rlim_t, hard: libc::rlim_t) -> bool {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` is a structure of this process for the kernel to read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_only_grows() {
        let before = limit().unwrap().rlim_cur;
        assert_eq!(allow_open_files(1), before);
        let hard = limit().unwrap().rlim_max;
        let more = before.saturating_add(1).min(hard);
        assert_eq!(allow_open_files(more), more);
        assert_eq!(limit().unwrap().rlim_cur, more);
    }
}
