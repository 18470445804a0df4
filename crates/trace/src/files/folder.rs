//! An open folder: what lies in it is made, read, renamed and removed through it, so that no other process can put another one in its place meanwhile.

use super::Objection;
use super::walk::{End, OTHERS_MAY_WRITE, STICKY, Walk, user};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// A folder, held open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the entry.
    pub name: OsString,
    /// Whether it is an ordinary file.
    pub is_file: bool,
    /// Whether it is a folder.
    pub is_folder: bool,
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens a folder that is there; none where nothing is.
    ///
    /// # Errors
    /// Errors of the system; an [`Objection`] where a link of another user leads there.
    pub fn find(path: &Path) -> io::Result<Option<Self>> {
        let mut walk = Walk::begin()?;
        let end = walk.to(path)?;
        if let Some(objection) = walk.link.take() {
            return Err(objection.into());
        }
        match end {
            End::There(_) => {
                let (fd, path) = walk.into_last();
                let fd = rustix::fs::openat(fd, ".", FOLDER, Mode::empty())?;
                Ok(Some(Self { fd, path }))
            }
            End::Handed(_) => Err(Errno::NOTDIR.into()),
            End::Missing { .. } => Ok(None),
        }
    }

    /// Opens a folder to be read only, whosever links lead there.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn followed(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let path = path.to_owned();
        Ok(Self { fd, path })
    }

    /// The folder that a path ends in, links followed, and the end's name in it, whether or not something is there. With `make`, folders that are
    /// missing on the way are made.
    ///
    /// # Errors
    /// Errors of the system; an [`Objection`] where a link of another user lies on the way.
    pub fn above(path: &Path, make: bool) -> io::Result<(Self, OsString)> {
        let mut walk = Walk::begin()?;
        walk.makes = make;
        let end = walk.to(path)?;
        if let Some(objection) = walk.link.take() {
            return Err(objection.into());
        }
        let (fd, path, leaf) = match end {
            End::There(_) => walk
                .parent()
                .ok_or_else(|| io::Error::other("it is the root of all directories"))?,
            End::Missing { leaf: Some(leaf) } => {
                let (fd, path) = walk.into_last();
                (fd, path, leaf)
            }
            End::Missing { leaf: None } => return Err(Errno::NOENT.into()),
            End::Handed(_) => return Err(Errno::NOTDIR.into()),
        };
        Ok((Self { fd, path }, leaf))
    }

    /// Path at which the folder was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether both are the same folder.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let of = |folder: &Self| rustix::fs::fstat(&folder.fd).map(|about| (about.st_dev, about.st_ino));
        matches!((of(self), of(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Refuses a folder where another user could exchange what a process of root writes.
    ///
    /// # Errors
    /// The [`Objection`].
    pub fn check(&self) -> io::Result<()> {
        self.checked(false)
    }

    /// Checks a folder that holds nothing but folders of root's own: there others may make what they like, if they can replace what is theirs only
    /// (`/tmp`).
    ///
    /// # Errors
    /// The [`Objection`].
    pub fn check_above(&self) -> io::Result<()> {
        self.checked(true)
    }

    fn checked(&self, above: bool) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let about = rustix::fs::fstat(&self.fd)?;
        let (owner, user) = (about.st_uid, user());
        let why = if owner != 0 && owner != user {
            format!(
                "the directory belongs to another user ({owner}), who could exchange what root writes there; name another one, or give it to root (chown)"
            )
        } else if about.st_mode & OTHERS_MAY_WRITE != 0 && !(above && about.st_mode & STICKY != 0) {
            "others may write the directory, and exchange what root writes there; name another one, or take the permission away (chmod go-w)".to_owned()
        } else {
            return Ok(());
        };
        let path = self.path.clone();
        Err(Objection { path, why }.into())
    }

    /// A folder in it.
    ///
    /// # Errors
    /// Errors of the system; `ELOOP` or `ENOTDIR` for a link.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let fd = rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty())?;
        let path = self.path.join(name);
        Ok(Self { fd, path })
    }

    /// A folder in it that others could not have exchanged, made for its owner alone where it is not there.
    ///
    /// # Errors
    /// Errors of the system; an [`Objection`] to what is there.
    pub fn own_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)) {
            Err(error) if error != Errno::EXIST => return Err(error.into()),
            _ => {}
        }
        let folder = self.folder(name)?;
        folder.check()?;
        Ok(folder)
    }

    /// An ordinary file in it, for reading.
    ///
    /// # Errors
    /// Errors of the system, also for a link; in words for what is no file.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.file(name.as_ref(), FILE | OFlags::RDONLY)
    }

    /// An ordinary file in it, for reading and writing; made for its owner alone where it is not there.
    ///
    /// # Errors
    /// As [`Folder::read`].
    pub fn write(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.file(name.as_ref(), FILE | OFlags::RDWR | OFlags::CREATE)
    }

    fn file(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600)) {
            Err(Errno::LOOP) => return Err(io::Error::other("it is no file but a symbolic link")),
            other => other?,
        };
        let about = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => Ok(fd.into()),
            _ => Err(io::Error::other("it is no file")),
        }
    }

    /// Whether an ordinary file of this name is there.
    pub fn has_file(&self, name: impl AsRef<OsStr>) -> bool {
        let about = rustix::fs::statat(&self.fd, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW);
        about.is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile)
    }

    /// Whether anything of this name is there.
    pub fn has(&self, name: impl AsRef<OsStr>) -> bool {
        rustix::fs::statat(&self.fd, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// All that lies in it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let about = rustix::fs::statat(&self.fd, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(about.st_mode)
                }
                kind => kind,
            };
            all.push(Entry {
                name,
                is_file: kind == FileType::RegularFile,
                is_folder: kind == FileType::Directory,
            });
        }
        Ok(all)
    }

    /// Gives something in it another name, in the place of a file that has it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(
            &self.fd,
            from.as_ref(),
            &self.fd,
            to.as_ref(),
        )?)
    }

    /// Two things take each other's name at once.
    ///
    /// # Errors
    /// Errors of the system; `EINVAL` where a file system cannot.
    pub(crate) fn exchange(&self, one: &OsStr, with: &Self, other: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(
            &self.fd,
            one,
            &with.fd,
            other,
            RenameFlags::EXCHANGE,
        )?)
    }

    /// Moves something into another folder of the same file system.
    pub(crate) fn move_to(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, name, &to.fd, new)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    /// Gives it to another user.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(&self.fd, Some(user), Some(group))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
