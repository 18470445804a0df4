//! Files and folders that other users may try to exchange: a path is walked once, each step is opened and looked at, and what lies in a folder is
//! reached through the open folder. Who may write what is decided here; what is written is not.
//!
//! A path that a privileged process is given may lead through directories of others. Two rules hold on the way:
//!
//! - A **symbolic link** of another user is never followed: it could lead anywhere.
//! - What a **file** says is trusted ([`Opened::objection`]) only where each directory on its way, each link and the file itself belong to root or to
//!   the caller, and others may not write them. In a directory with the sticky bit (`/tmp`) others can replace only what is theirs.
//!
//! A process may have another **root** (`/proc/PID/root/…`), a container's for example, in which others are root: what lies there is read and never trusted or
//! written to; no link leads out of it; only ordinary files are opened, and no pipe is waited for.
//!
//! A **folder** that a process of root writes to must belong to root, or to the user whose rights it has taken, and others may not write it
//! ([`Folder::check`]); the directories above may be anybody's: what is open cannot be exchanged.

mod folder;
mod walk;

pub use folder::{Entry, Folder};
pub use walk::user;

use rustix::fd::AsFd as _;
use rustix::fs::{FileType, Mode, OFlags};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use walk::{End, Walk};

/// Why what lies at a path may be another user's doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The file, the link, or the directory above it.
    pub path: PathBuf,
    /// Why it is objected to.
    pub why: String,
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for Objection {}

impl From<Objection> for io::Error {
    fn from(objection: Objection) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, objection)
    }
}

/// A file opened for reading, and whether others could have written it or put it where it is.
#[derive(Debug)]
pub struct Opened {
    /// The open file.
    pub file: File,
    /// Where it lies, links followed.
    pub path: PathBuf,
    /// The first thing on the way that another user can change; none where only root and the caller can.
    pub objection: Option<Objection>,
}

/// Opens a file for reading, links followed. Devices and directories are not opened: reading one may have no end, or an effect. In another process's tree of files
/// pipes are not, either: their writer may never come.
///
/// # Errors
/// Errors of the system, or in words why it is not opened.
pub fn open(path: &Path) -> io::Result<Opened> {
    opened(Walk::begin()?, path)
}

/// Opens an ordinary file for reading, links followed, where others choose what lies there: as [`open`], but no pipe is opened or waited for.
///
/// # Errors
/// As [`open`].
pub fn open_ordinary(path: &Path) -> io::Result<Opened> {
    let mut walk = Walk::begin()?;
    walk.waits = false;
    opened(walk, path)
}

/// Opens an ordinary file by its path as a process with this root directory sees it.
///
/// # Errors
/// As [`open`].
pub fn open_in(root: &File, path: &Path) -> io::Result<Opened> {
    opened(Walk::begin_in(root.as_fd())?, path)
}

/// Whether an open file has this inode where it was mapped. Of a file on overlayfs the kernel names the inode of the layer that holds it (in `/proc/PID/maps`
/// until 6.7, to perf still), while stat(2) may show that with the number of the layer in the upper half.
pub fn is_of_inode(file: &File, inode: u64) -> bool {
    /// `OVERLAYFS_SUPER_MAGIC` of `uapi/linux/magic.h`.
    const OVERLAYFS: i64 = 0x794c_7630;
    let Ok(about) = rustix::fs::fstat(file) else {
        return false;
    };
    let is_on_overlayfs = || walk::file_system(file.as_fd()) == OVERLAYFS;
    about.st_ino == inode || (about.st_ino & u64::from(u32::MAX) == inode && is_on_overlayfs())
}

fn opened(mut walk: Walk, path: &Path) -> io::Result<Opened> {
    let (file, path) = match walk.to(path)? {
        End::There(step) => {
            let about = rustix::fs::fstat(&step)?;
            let kind = FileType::from_raw_mode(about.st_mode);
            refuse_kind(kind)?;
            let file = match kind {
                FileType::RegularFile if walk.is_elsewhere => Walk::reopen_ordinary(step.as_fd())?,
                FileType::RegularFile => walk.reopen(OFlags::RDONLY | OFlags::NONBLOCK)?,
                _ if walk.is_elsewhere || !walk.waits => return Err(no_file_but("a pipe")),
                // A reader that waits at the other end of a pipe is waited for; nothing else is, whatever it has become meanwhile.
                FileType::Fifo => walk.reopen(OFlags::RDONLY)?,
                _ => walk.reopen(OFlags::RDONLY | OFlags::NONBLOCK)?,
            };
            (file, walk.path())
        }
        // A file that the caller has open already (`/dev/stdin`) it chose itself.
        End::Handed(file) => (file, path.to_owned()),
        End::Missing { .. } => return Err(rustix::io::Errno::NOENT.into()),
    };
    let about = rustix::fs::fstat(&file)?;
    let kind = FileType::from_raw_mode(about.st_mode);
    refuse_kind(kind)?;
    if kind == FileType::RegularFile {
        walk.look(&about, &path, false);
    } else if !walk.waits {
        return Err(no_file_but("a pipe"));
    }
    Ok(Opened {
        file,
        path,
        objection: walk.objection,
    })
}

/// Objection to running a program by its path: what others than root and this user could change: the file, a link or a directory on its way. It is not opened:
/// where there is no objection, no other user can put another file there afterwards.
///
/// # Errors
/// When it is not there.
pub fn objection(path: &Path, user: u32) -> io::Result<Option<Objection>> {
    let mut walk = Walk::begin_for(user)?;
    match walk.to(path)? {
        End::There(step) => walk.look(&rustix::fs::fstat(&step)?, path, false),
        End::Handed(_) => {}
        End::Missing { .. } => return Err(rustix::io::Errno::NOENT.into()),
    }
    Ok(walk.objection)
}

/// Opens a file to be written from its beginning, made with this mode where it is not there. Links of others are not followed, and nothing but an
/// ordinary file of the caller's or of root's is written over.
///
/// # Errors
/// Errors of the system, or an [`Objection`].
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut walk = Walk::begin()?;
    let end = walk.to(path)?;
    if let Some(objection) = walk.link.take() {
        return Err(objection.into());
    }
    let file = match end {
        End::Handed(_) => return File::options().write(true).open(path),
        End::There(step) => {
            let about = rustix::fs::fstat(&step)?;
            match FileType::from_raw_mode(about.st_mode) {
                FileType::RegularFile => {
                    walk.own(&about, path)?;
                    walk.reopen(OFlags::WRONLY)?
                }
                FileType::Directory => return Err(rustix::io::Errno::ISDIR.into()),
                // A device or a pipe, named on purpose.
                _ => return walk.reopen(OFlags::WRONLY),
            }
        }
        End::Missing { leaf: Some(leaf) } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::openat(walk.last(), &leaf, flags, Mode::from_raw_mode(mode))?;
            File::from(made)
        }
        End::Missing { leaf: None } => return Err(rustix::io::Errno::NOENT.into()),
    };
    walk.own(&rustix::fs::fstat(&file)?, path)?;
    file.set_len(0)?;
    Ok(file)
}

fn refuse_kind(kind: FileType) -> io::Result<()> {
    let other = match kind {
        FileType::Directory => "a directory",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Socket => "a socket",
        _ => return Ok(()),
    };
    Err(no_file_but(other))
}

fn no_file_but(other: &str) -> io::Error {
    io::Error::other(format!("it is no file but {other}"))
}

#[cfg(test)]
mod tests;
