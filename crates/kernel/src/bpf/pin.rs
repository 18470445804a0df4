//! Pins: names in bpffs that keep a map, program or link alive without a process; not where a session keeps them.

use super::descriptor::DescriptorKind;
use super::sys::{self, Command};
use super::{Link, Map, Program};
use crate::error::{Error, Result};
use bytemuck::Zeroable;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Object found under a pin.
#[derive(Debug)]
#[allow(missing_docs, reason = "the variants speak for themselves")]
pub enum Pinned {
    Map(Map),
    Program(Program),
    Link(Link),
}

fn argument(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Argument {
        subject: path.display().to_string(),
        why: "a path cannot contain a zero byte".to_owned(),
    })
}

/// Pins a map, program or link at `path`, which must be below bpffs and free (`BPF_OBJ_PIN`).
///
/// # Errors
/// [`Error::System`]: `EEXIST` if the name is taken, `ENOENT` if the directory is missing, `EPERM` or `EINVAL` if it is not in bpffs.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let name = argument(path)?;
    let mut request = sys::Object {
        pathname: name.as_ptr() as u64,
        bpf_fd: object.as_raw_fd() as u32,
        file_flags: 0,
    };
    // SAFETY: the path is NUL-terminated and outlives the call.
    unsafe { sys::call(Command::ObjPin, &mut request) }
        .map(drop)
        .map_err(|errno| Error::system("pin at", path.display().to_string(), errno))
}

/// Opens what is pinned at `path` (`BPF_OBJ_GET`).
///
/// # Errors
/// [`Error::System`]: `ENOENT` if nothing is there.
pub fn pinned(path: &Path) -> Result<Pinned> {
    let fd = open(path)?;
    Ok(match DescriptorKind::of(fd.as_fd())? {
        DescriptorKind::Map => Pinned::Map(Map::from_fd(fd)?),
        DescriptorKind::Program => Pinned::Program(Program::from_fd(fd)?),
        DescriptorKind::Link => Pinned::Link(Link::from_fd(fd)?),
    })
}

fn open(path: &Path) -> Result<OwnedFd> {
    let name = argument(path)?;
    let mut request = sys::Object {
        pathname: name.as_ptr() as u64,
        ..Zeroable::zeroed()
    };
    // SAFETY: the path is NUL-terminated and outlives the call, which answers with a new descriptor.
    unsafe { sys::call_for_fd(Command::ObjGet, &mut request) }
        .map_err(|errno| Error::system("open the pin", path.display().to_string(), errno))
}

/// Removes a pin; the object goes with its last user. False if there was none.
///
/// # Errors
/// [`Error::System`].
pub fn unpin(path: &Path) -> Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::system("remove the pin", path.display().to_string(), error)),
    }
}
