//! User identity of this process, and a thread's rights to files for a while.

use crate::error::{Errno, Error, Result};
use std::marker::PhantomData;

/// The effective user number.
pub fn user() -> u32 {
    // SAFETY: a system call without arguments that cannot fail.
    unsafe { libc::geteuid() }
}

/// While it lives, the calling thread's files are made by, and opened with the rights of, another user; its other rights are unchanged.
///
/// setfsuid(2) does that per thread, and takes the capabilities that override file permissions away meanwhile. The groups that the process has
/// besides its first one stay.
#[derive(Debug)]
pub struct FileRights {
    user: u32,
    group: u32,
    /// Keeps the value on its thread: it must end where it began.
    _of_this_thread: PhantomData<*const ()>,
}

impl FileRights {
    /// Takes the rights of a user and a group.
    ///
    /// # Errors
    /// [`Error::System`]: `EPERM` without CAP_SETUID and CAP_SETGID.
    pub fn of(user: u32, group: u32) -> Result<Self> {
        let before = Self {
            user: set_user(user),
            group: set_group(group),
            _of_this_thread: PhantomData,
        };
        // The calls say what was before, never that they failed; with a number that no user has they only say what is.
        if set_user(u32::MAX) == user && set_group(u32::MAX) == group {
            return Ok(before);
        }
        Err(Error::system(
            "use files with the rights of",
            format!("user {user}, group {group}"),
            Errno::EPERM,
        ))
    }
}

impl Drop for FileRights {
    fn drop(&mut self) {
        set_user(self.user);
        set_group(self.group);
    }
}

fn set_user(user: u32) -> u32 {
    // SAFETY: a system call without memory of ours; it changes this thread's rights to files and nothing else.
    unsafe { libc::setfsuid(user) as u32 }
}

fn set_group(group: u32) -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(group) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_are_the_other_users_only_meanwhile() {
        if user() != 0 {
            println!("skipped: only root can be somebody else");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(root.path(), Some(1234), Some(1235)).unwrap();
        let owner = |name: &str| {
            let path = root.path().join(name);
            std::fs::write(&path, name).unwrap();
            let found = std::fs::metadata(path).unwrap();
            (found.uid(), found.gid())
        };
        let rights = FileRights::of(1234, 1235).unwrap();
        assert_eq!(owner("theirs"), (1234, 1235));
        assert!(
            std::fs::read("/proc/1/environ").is_err(),
            "nothing that is root's alone"
        );
        drop(rights);
        assert_eq!(owner("ours").0, 0);
    }
}
