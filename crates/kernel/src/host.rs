//! The root of the kernel's files: the only way to a path under /proc, /sys and /boot, so that a small tree can stand in for it.

use crate::error::{Errno, Error, Interface, Result};
use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file system root with /proc, /sys and /boot below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    /// The machine this runs on: `/`.
    fn default() -> Self {
        Self::new("/")
    }
}

impl Host {
    /// A tree below `root`, laid out like `/`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the machine itself, so that what its files say holds for system calls too.
    pub(crate) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path on this host; `path` is given from the root, with or without a leading slash.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The whole of a file as text. Bytes that are not UTF-8 are replaced (a process may choose any `comm`).
    ///
    /// # Errors
    /// [`Error::System`] with the path.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let bytes = self.read_bytes(path)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// The whole of a file. Files made up by the kernel have no length: read until nothing comes.
    ///
    /// # Errors
    /// [`Error::System`] with the path.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = self.path(path);
        let read = || {
            let mut file = fs::File::open(&path)?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error: std::io::Error| Error::file("read", &path, error))
    }

    /// The number that is all of a file's content.
    ///
    /// # Errors
    /// [`Error::System`] or [`Error::Format`] with the path.
    pub fn read_number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Result<T> {
        let text = self.read(path.as_ref())?;
        text.trim().parse().map_err(|_| Error::Format {
            subject: self.path(path).display().to_string(),
            why: format!("`{}` is not a number", text.trim()),
        })
    }

    /// Directory of tracefs: `/sys/kernel/tracing`, or below debugfs as on older systems.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it is mounted at neither place; [`Error::System`] if it is and this process may not look into it.
    pub fn tracefs(&self) -> Result<PathBuf> {
        let places = || TRACEFS_PLACES.iter().map(|place| self.path(place));
        if let Some(place) = places().find(|place| place.join("events").is_dir()) {
            return Ok(place);
        }
        let closed = places().find(|place| self.is_live() && has_magic(place, TRACEFS_MAGIC));
        Err(match closed {
            Some(place) => Error::tracefs("read", &place, Errno::EACCES),
            None => Error::Unavailable {
                what: "tracefs",
                why: format!("it is not mounted at {}", self.path(TRACEFS_PLACES[0]).display()),
            },
        })
    }

    /// Where tracefs is, mounting it first where that is missing and this process may
    /// (`mount -t tracefs nodev /sys/kernel/tracing`). The mount is left in place: other tools expect it there too.
    ///
    /// # Errors
    /// [`Error::System`] if mounting was refused; [`Error::Unavailable`] if this is not a live host.
    pub fn mount_tracefs(&self) -> Result<PathBuf> {
        self.tracefs().or_else(|missing| {
            // A closed file system that is there would only be hidden by another mount.
            if matches!(missing, Error::System { .. }) {
                return Err(missing);
            }
            self.mount("tracefs", TRACEFS_PLACES[0], missing)?;
            self.tracefs()
        })
    }

    /// Directory of bpffs: `/sys/fs/bpf`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if nothing of the kind is mounted there.
    pub fn bpffs(&self) -> Result<PathBuf> {
        let place = self.path(BPFFS_PLACE);
        if !self.is_live() && place.is_dir() || self.is_live() && has_magic(&place, BPF_FS_MAGIC) {
            return Ok(place);
        }
        Err(Error::Unavailable {
            what: "bpffs",
            why: format!("it is not mounted at {}", place.display()),
        })
    }

    /// Whether a path is in a bpffs, or would be if it were made.
    pub fn is_in_bpffs(path: &Path) -> bool {
        let mut upwards = path.ancestors();
        let there = upwards.find(|place| place.exists());
        // A name alone is made where the process is.
        let there = there.unwrap_or(Path::new("."));
        has_magic(there, BPF_FS_MAGIC)
    }

    /// Where bpffs is, mounting it first where that is missing and this process may.
    ///
    /// # Errors
    /// As [`Host::mount_tracefs`].
    pub fn mount_bpffs(&self) -> Result<PathBuf> {
        self.bpffs().or_else(|missing| {
            self.mount("bpf", BPFFS_PLACE, missing)?;
            self.bpffs()
        })
    }

    /// Where debugfs is, mounting it first where that is missing and this process may.
    ///
    /// # Errors
    /// As [`Host::mount_tracefs`].
    pub fn mount_debugfs(&self) -> Result<PathBuf> {
        let place = self.path(DEBUGFS_PLACE);
        let there = || !self.is_live() || has_magic(&place, DEBUGFS_MAGIC);
        if !there() {
            let missing = Error::Unavailable {
                what: "debugfs",
                why: format!("it is not mounted at {}", place.display()),
            };
            self.mount("debugfs", DEBUGFS_PLACE, missing)?;
        }
        Ok(place)
    }

    fn mount(&self, kind: &'static str, place: &str, missing: Error) -> Result<()> {
        if !self.is_live() {
            return Err(missing);
        }
        let path = self.path(place);
        let argument = |bytes: &[u8]| CString::new(bytes).map_err(|_| missing.clone());
        let (target, kind) = (argument(path.as_os_str().as_bytes())?, argument(kind.as_bytes())?);
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        // Unasked, everybody may make directories and links in a bpffs.
        let options = if kind.as_bytes() == b"bpf" {
            c"mode=700"
        } else {
            c""
        };
        // SAFETY: the four strings are NUL-terminated and outlive the call, and these file systems take their options as a string.
        let answer = unsafe {
            libc::mount(
                c"nodev".as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        };
        if answer == 0 {
            Ok(())
        } else {
            Err(Error::system("mount", place, Errno::last()).of(Interface::Mount))
        }
    }
}

const TRACEFS_PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// `TRACEFS_MAGIC` of `uapi/linux/magic.h`.
const TRACEFS_MAGIC: libc::__fsword_t = 0x7472_6163;
const DEBUGFS_PLACE: &str = "/sys/kernel/debug";
/// `DEBUGFS_MAGIC` of `uapi/linux/magic.h`.
const DEBUGFS_MAGIC: libc::__fsword_t = 0x6462_6720;
/// Where bpffs lies.
pub const BPFFS_PLACE: &str = "/sys/fs/bpf";
/// `BPF_FS_MAGIC` of `uapi/linux/magic.h`.
const BPF_FS_MAGIC: libc::__fsword_t = 0xcafe_4a11;

fn has_magic(place: &Path, magic: libc::__fsword_t) -> bool {
    let Ok(path) = CString::new(place.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `statfs` is plain numbers, for which all zeroes is a value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated and `found` is a statfs structure of this process.
    let answer = unsafe { libc::statfs(path.as_ptr(), &mut found) };
    answer == 0 && found.f_type == magic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        let host = Host::new("/tmp/tree");
        assert_eq!(host.path("/proc/kallsyms"), Path::new("/tmp/tree/proc/kallsyms"));
        assert_eq!(host.path("proc/kallsyms"), Path::new("/tmp/tree/proc/kallsyms"));
        assert_eq!(Host::default().path("/proc"), Path::new("/proc"));
    }

    #[test]
    fn tracefs_is_found_at_either_place_and_missed_by_name() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        assert!(
            host.tracefs()
                .unwrap_err()
                .to_string()
                .contains("sys/kernel/tracing")
        );
        assert!(
            host.mount_tracefs().is_err(),
            "a stand-in tree is never mounted on"
        );
        fs::create_dir_all(tree.path().join("sys/kernel/debug/tracing/events")).unwrap();
        assert!(host.tracefs().unwrap().ends_with("debug/tracing"));
        fs::create_dir_all(tree.path().join("sys/kernel/tracing/events")).unwrap();
        assert!(host.tracefs().unwrap().ends_with("kernel/tracing"));
    }

    #[test]
    fn a_missing_path_outside_bpffs_is_not_in_bpffs() {
        let tree = tempfile::tempdir().unwrap();
        assert!(!Host::is_in_bpffs(&tree.path().join("not/made")));
        assert!(!Host::is_in_bpffs(Path::new("not-made")));
    }

    #[test]
    fn a_missing_file_is_named() {
        let tree = tempfile::tempdir().unwrap();
        let error = Host::new(tree.path()).read("/proc/version").unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENOENT));
        assert!(error.to_string().contains("proc/version"));
    }
}
