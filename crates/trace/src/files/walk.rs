//! Walking a path step by step, each opened without following links and looked at; links are followed here, after a look at whose they are.
//!
//! `/proc/PID/root` is where another process has its root: a *tree of its own*, perhaps a container's. Whoever fills that tree is not trusted, so a walk that has entered it does not
//! leave it: links and `..` end at its root, as they do for the process, and links of /proc, which lead anywhere, are not followed in it.

use super::Objection;
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

/// Write permission of the group and of others.
pub(super) const OTHERS_MAY_WRITE: u32 = 0o022;
/// The sticky bit: in such a directory a file is replaced by its owner only, or the directory's.
pub(super) const STICKY: u32 = 0o1000;
/// As many links as the kernel follows.
const MAX_LINKS: u32 = 40;
/// The type of the file system whose links lead to what is open, not to where their text says.
const PROC: i64 = 0x9fa0;
/// Types of file systems whose files are the kernel's answers, by include/uapi/linux/magic.h: proc, sysfs, debugfs, tracefs, securityfs, configfs, bpf, pstore, cgroup, cgroup2.
const OF_THE_KERNEL: [i64; 10] = [
    PROC,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0xcafe_4a11,
    0x6165_676c,
    0x0027_e0eb,
    0x6367_7270,
];

/// The user whose rights this thread has to files: that of what it makes. The system has no other question for that.
pub fn user() -> u32 {
    let made = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let about = made.and_then(|(pipe, _)| rustix::fs::fstat(pipe));
    about.map_or_else(|_| rustix::process::geteuid().as_raw(), |about| about.st_uid)
}

/// End of a walked path.
pub(super) enum End {
    /// At something, opened by name only.
    There(OwnedFd),
    /// At something that this process, or another, has open (`/proc/self/fd/0`): opened for reading.
    Handed(File),
    /// At nothing: under this name in the last directory, or in none where directories are missing, too.
    Missing { leaf: Option<OsString> },
}

/// A path on the way.
pub(super) struct Walk {
    root: OwnedFd,
    steps: Vec<(OwnedFd, OsString)>,
    /// Number of steps to the root of the tree that the walk does not leave.
    floor: usize,
    /// Whether that tree is another process's.
    pub(super) is_elsewhere: bool,
    user: u32,
    /// The first thing that others can change.
    pub(super) objection: Option<Objection>,
    /// The first link of another user.
    pub(super) link: Option<Objection>,
    /// Whether missing directories are made.
    pub(super) makes: bool,
    /// Whether a pipe is waited for until somebody writes to it.
    pub(super) waits: bool,
}

const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Walk {
    pub(super) fn begin() -> io::Result<Self> {
        Self::begin_for(user())
    }

    /// Begins a walk with another user beside root whose files are trusted.
    pub(super) fn begin_for(user: u32) -> io::Result<Self> {
        let root = rustix::fs::openat(CWD, "/", STEP, Mode::empty())?;
        let mut walk = Self::from(root, user);
        let about = rustix::fs::fstat(&walk.root)?;
        walk.look(&about, Path::new("/"), true);
        Ok(walk)
    }

    /// Begins a walk in another process's tree of files, at its root.
    pub(super) fn begin_in(root: BorrowedFd<'_>) -> io::Result<Self> {
        let mut walk = Self::from(rustix::io::dup(root)?, user());
        walk.enter(Path::new("/"));
        Ok(walk)
    }

    fn from(root: OwnedFd, user: u32) -> Self {
        Self {
            root,
            steps: Vec::new(),
            floor: 0,
            is_elsewhere: false,
            user,
            objection: None,
            link: None,
            makes: false,
            waits: true,
        }
    }

    /// Notes that the walk is at the root of another process's tree, which it does not leave.
    fn enter(&mut self, here: &Path) {
        self.floor = self.steps.len();
        self.is_elsewhere = true;
        let objection = Objection {
            path: here.to_owned(),
            why: "it is another process's tree of files".to_owned(),
        };
        self.link.get_or_insert_with(|| objection.clone());
        self.objection.get_or_insert(objection);
    }

    /// Goes along a path, from where the process is.
    pub(super) fn to(&mut self, path: &Path) -> io::Result<End> {
        // A trailing slash means a directory, which opening the end finds out.
        let path = std::path::absolute(path)?;
        let mut ahead = components(&path);
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            if name == ".." {
                if self.steps.len() > self.floor {
                    self.steps.pop();
                }
                continue;
            }
            let step = match rustix::fs::openat(self.last(), &name, STEP, Mode::empty()) {
                Ok(step) => step,
                Err(Errno::NOENT) if ahead.is_empty() => return Ok(End::Missing { leaf: Some(name) }),
                Err(Errno::NOENT) if self.makes => {
                    self.make(&name)?;
                    ahead.push(name);
                    continue;
                }
                Err(Errno::NOENT) => return Ok(End::Missing { leaf: None }),
                Err(error) => return Err(error.into()),
            };
            let about = rustix::fs::fstat(&step)?;
            let here = self.path().join(&name);
            match FileType::from_raw_mode(about.st_mode) {
                FileType::Symlink => {
                    if self.is_elsewhere && is_of_proc(step.as_fd()) {
                        return Err(leads_out(&here));
                    }
                    if ahead.is_empty() && is_of_proc(step.as_fd()) {
                        let calm = match self.waits {
                            true => OFlags::empty(),
                            false => OFlags::NONBLOCK,
                        };
                        let flags = OFlags::RDONLY | OFlags::CLOEXEC | calm;
                        let handed = rustix::fs::openat(self.last(), &name, flags, Mode::empty())?;
                        return Ok(End::Handed(handed.into()));
                    }
                    if name == "root" && is_of_proc(step.as_fd()) {
                        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                        let inside = rustix::fs::openat(self.last(), &name, flags, Mode::empty())?;
                        if is_same_place(inside.as_fd(), self.root.as_fd()) {
                            self.steps.clear();
                        } else {
                            self.steps.push((inside, name));
                            self.enter(&here);
                        }
                        continue;
                    }
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    self.look_at_link(&about, &here);
                    let text = rustix::fs::readlinkat(&step, "", Vec::new())?;
                    let target = PathBuf::from(OsString::from_vec(text.into_bytes()));
                    if target.is_absolute() {
                        self.steps.truncate(self.floor);
                    }
                    ahead.extend(components(&target));
                }
                FileType::Directory => {
                    self.look(&about, &here, true);
                    self.steps.push((step, name));
                }
                _ if ahead.is_empty() => {
                    let end = rustix::io::dup(&step)?;
                    self.steps.push((step, name));
                    return Ok(End::There(end));
                }
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        Ok(End::There(rustix::io::dup(self.last())?))
    }

    fn make(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::mkdirat(self.last(), name, Mode::from_raw_mode(0o777)) {
            Err(error) if error != Errno::EXIST => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The last directory, or what the path ended at.
    pub(super) fn last(&self) -> BorrowedFd<'_> {
        self.steps.last().map_or(self.root.as_fd(), |(fd, _)| fd.as_fd())
    }

    /// Where that lies, links followed.
    pub(super) fn path(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        path.extend(self.steps.iter().map(|(_, name)| name));
        path
    }

    /// The directory above the end, and the end's name in it.
    pub(super) fn parent(mut self) -> Option<(OwnedFd, PathBuf, OsString)> {
        let (_, leaf) = self.steps.pop()?;
        let path = self.path();
        let fd = self.steps.pop().map_or(self.root, |(fd, _)| fd);
        Some((fd, path, leaf))
    }

    /// Takes the last directory.
    pub(super) fn into_last(mut self) -> (OwnedFd, PathBuf) {
        let path = self.path();
        (self.steps.pop().map_or(self.root, |(fd, _)| fd), path)
    }

    /// Opens what the path ended at, by its name in the directory above it: if another link or file lies there meanwhile, that is looked at next.
    pub(super) fn reopen(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some(((_, name), above)) = self.steps.split_last() else {
            return Err(Errno::ISDIR.into());
        };
        let above = above.last().map_or(self.root.as_fd(), |(fd, _)| fd.as_fd());
        Ok(rustix::fs::openat(above, name, flags, Mode::empty())?.into())
    }

    /// Opens what the path ended at in another process's tree: that very file, whatever lies at its name by now, and only if it is an ordinary one that somebody wrote.
    pub(super) fn reopen_ordinary(step: BorrowedFd<'_>) -> io::Result<File> {
        if OF_THE_KERNEL.contains(&file_system(step)) {
            return Err(io::Error::other("it is no file but an answer of the kernel"));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let very = format!("/proc/self/fd/{}", step.as_raw_fd());
        Ok(rustix::fs::openat(CWD, very, flags, Mode::empty())?.into())
    }

    /// Notes if others can change what is here.
    pub(super) fn look(&mut self, about: &Stat, here: &Path, directory: bool) {
        if self.objection.is_some() {
            return;
        }
        let sticky = directory && about.st_mode & STICKY != 0;
        let why = if about.st_mode & OTHERS_MAY_WRITE != 0 && !sticky {
            "others than its owner may write it".to_owned()
        } else if about.st_uid != 0 && about.st_uid != self.user {
            format!("it belongs to another user ({})", about.st_uid)
        } else {
            return;
        };
        let path = here.to_owned();
        self.objection = Some(Objection { path, why });
    }

    fn look_at_link(&mut self, about: &Stat, here: &Path) {
        if about.st_uid == 0 || about.st_uid == self.user {
            return;
        }
        let objection = Objection {
            path: here.to_owned(),
            why: format!("it is a symbolic link of another user ({})", about.st_uid),
        };
        self.link.get_or_insert_with(|| objection.clone());
        self.objection.get_or_insert(objection);
    }

    /// Refuses to write over a file of another user's.
    pub(super) fn own(&self, about: &Stat, path: &Path) -> io::Result<()> {
        if about.st_uid == self.user || about.st_uid == 0 {
            return Ok(());
        }
        let why = format!(
            "it is a file of another user ({}), and would be written over",
            about.st_uid
        );
        Err(Objection {
            path: path.to_owned(),
            why,
        }
        .into())
    }
}

/// The steps of a path, the first one last.
fn components(path: &Path) -> Vec<OsString> {
    let step = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::from_bytes(b"..").to_owned()),
        _ => None,
    };
    path.components().rev().filter_map(step).collect()
}

fn is_of_proc(link: BorrowedFd<'_>) -> bool {
    file_system(link) == PROC
}

/// The type of the file system that a file is in; 0 where it is not known.
pub(super) fn file_system(place: BorrowedFd<'_>) -> i64 {
    // The type's width differs between processors.
    #[allow(clippy::unnecessary_cast, reason = "another width elsewhere")]
    rustix::fs::fstatfs(place).map_or(0, |about| about.f_type as i64)
}

/// Whether two directories are one, seen through one mount: what lies below is the same then.
fn is_same_place(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let place = |directory: BorrowedFd<'_>| {
        let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
        let about = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, wanted).ok()?;
        let is_told = about.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        is_told.then_some((
            about.stx_mnt_id,
            about.stx_ino,
            about.stx_dev_major,
            about.stx_dev_minor,
        ))
    };
    place(one).is_some_and(|one| place(other) == Some(one))
}

fn leads_out(link: &Path) -> io::Error {
    let why = format!(
        "{} is a link of /proc in another process's tree of files: it may lead out of that",
        link.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
