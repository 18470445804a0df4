//! The device node through which user space makes events: the null device under a name of its own, so that writes to it are distinguished
//! from others to the null device. What is made of the writes is decided elsewhere.

use crate::error::{Errno, Error, Result};
use crate::host::Host;
use std::ffi::CString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the node is. In devtmpfs it lives until the machine is started again, and costs an inode.
pub const PATH: &str = "/dev/kestrel-mark";

/// The null device (`drivers/char/mem.c`).
const NULL: (u32, u32) = (1, 3);
/// Root's alone, until root says otherwise.
const MODE: libc::mode_t = 0o600;

/// The node's inode, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The file system's device, as in `super_block.s_dev`.
    pub device: u32,
    /// The inode's number.
    pub inode: u64,
}

/// The node, if it is there.
///
/// # Errors
/// [`Error::Argument`] where something else has its name; [`Error::System`] where it cannot be looked at.
pub fn find(host: &Host) -> Result<Option<Node>> {
    let path = host.path(PATH);
    match fs::symlink_metadata(&path) {
        Ok(found) => judged(&path, &found).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::system("look at", path.display().to_string(), error)),
    }
}

/// The node, made where it is missing. What has its name and is something else is left as it is.
///
/// # Errors
/// As [`find`]; [`Error::System`] where it cannot be made.
pub fn make(host: &Host) -> Result<Node> {
    if let Some(node) = find(host)? {
        return Ok(node);
    }
    let path = host.path(PATH);
    let subject = path.display().to_string();
    if !host.is_live() {
        return Err(Error::system("make the device", subject, Errno::ENOENT));
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Argument {
        subject: subject.clone(),
        why: "no path has a NUL".to_owned(),
    })?;
    let device = libc::makedev(NULL.0, NULL.1);
    // SAFETY: the path is NUL-terminated and outlives the call.
    let answer = unsafe { libc::mknod(name.as_ptr(), libc::S_IFCHR | MODE, device) };
    let errno = Errno::last();
    // Another command may have made it meanwhile: whose it is, is looked at either way.
    if answer != 0 && errno.0 != libc::EEXIST {
        return Err(Error::system("make the device", subject, errno));
    }
    find(host)?.ok_or_else(|| Error::system("make the device", subject, Errno::ENOENT))
}

/// The node, open for writing.
#[derive(Debug)]
pub struct Marks {
    file: File,
    path: PathBuf,
}

impl Marks {
    /// Opens the node; `None` where there is none, because nothing has listened since the machine was started.
    ///
    /// # Errors
    /// As [`find`]; [`Error::System`] where it may not be written.
    pub fn open(host: &Host) -> Result<Option<Self>> {
        if find(host)?.is_none() {
            return Ok(None);
        }
        let path = host.path(PATH);
        let failed = |error| Error::file("open", &path, error);
        let mut options = OpenOptions::new();
        options.write(true);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
        let file = options.open(&path).map_err(failed)?;
        // The opened file is the one that counts.
        judged(&path, &file.metadata().map_err(failed)?)?;
        Ok(Some(Self { file, path }))
    }

    /// Writes one mark: its text, and values behind it, if there are any.
    ///
    /// # Errors
    /// [`Error::System`] with the kernel's answer.
    pub fn write(&self, text: &str, values: &str) -> Result<()> {
        let failed = |error| Error::system("write to", self.path.display().to_string(), error);
        let mut bytes = text.as_bytes().to_vec();
        // The null device takes any position. It says where the values begin, behind the text and a NUL; plain writes are at 0.
        let at = match values.is_empty() {
            true => 0,
            false => {
                bytes.push(0);
                let at = bytes.len() as u64;
                bytes.extend_from_slice(values.as_bytes());
                at
            }
        };
        // One call and no more: what it takes of it is all of it.
        self.file.write_at(&bytes, at).map(|_| ()).map_err(failed)
    }
}

/// The inode of what lies at the path, if it is the node.
fn judged(path: &Path, found: &Metadata) -> Result<Node> {
    let what = || {
        let kind = found.file_type();
        if kind.is_symlink() {
            return Some("it is a symbolic link");
        }
        if !kind.is_char_device() {
            return Some("it is no character device");
        }
        let rdev = found.rdev();
        if (libc::major(rdev), libc::minor(rdev)) != NULL {
            return Some("it is another device than the null device (1:3)");
        }
        (found.uid() != 0).then_some("it does not belong to root")
    };
    if let Some(why) = what() {
        return Err(Error::Argument {
            subject: path.display().to_string(),
            why: format!(
                "{why}, so it is neither used nor replaced; take it away if it means nothing to you"
            ),
        });
    }
    let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
    Ok(Node {
        // `MKDEV` of include/linux/kdev_t.h.
        device: major << 20 | minor,
        inode: found.ino(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(host: &Host) -> String {
        find(host).unwrap_err().to_string()
    }

    #[test]
    fn a_file_in_the_mark_devices_place_is_refused_and_not_removed() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        fs::create_dir(tree.path().join("dev")).unwrap();
        assert_eq!(find(&host).unwrap(), None);
        assert!(Marks::open(&host).unwrap().is_none());
        let path = host.path(PATH);
        fs::write(&path, "mine").unwrap();
        assert!(
            refusal(&host).contains("no character device"),
            "{}",
            refusal(&host)
        );
        assert!(make(&host).is_err() && Marks::open(&host).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(refusal(&host).contains("symbolic link"), "{}", refusal(&host));
        assert!(Marks::open(&host).is_err());
    }

    #[test]
    fn devices_are_distinguished() {
        let look = |path: &str| judged(Path::new(path), &fs::symlink_metadata(path).unwrap());
        assert!(look("/dev/zero").unwrap_err().to_string().contains("1:3"));
        let null = look("/dev/null").unwrap();
        assert_eq!(null.inode, fs::metadata("/dev/null").unwrap().ino());
    }
}
