//! Handing types (BTF) to the kernel, as some maps and all programs of objects want it; reading types is kestrel-bpf's.

use super::sys::{self, Command};
use crate::error::{Error, Result};
use bytemuck::Zeroable;
use std::os::fd::{AsFd, OwnedFd};

/// The types of the kernel (`vmlinux`) or of a module as a descriptor, for programs that are bound to something of a module.
///
/// # Errors
/// [`Error::System`] if they cannot be listed; [`Error::Unavailable`] if there is no module of this name, or it has no types.
pub fn module_btf(name: &str) -> Result<OwnedFd> {
    find_module(name).map(|(_, fd)| fd)
}

/// The number of the types of a module, while it is loaded.
///
/// # Errors
/// As [`module_btf`].
pub fn module_btf_id(name: &str) -> Result<u32> {
    find_module(name).map(|(id, _)| id)
}

fn find_module(name: &str) -> Result<(u32, OwnedFd)> {
    for id in super::btf_ids()? {
        let Ok(fd) = super::id::open(Command::BtfFdById, id, "open the types with id") else {
            continue; // gone meanwhile
        };
        let mut text = [0u8; 64];
        let mut info = sys::BtfInfo {
            name: text.as_mut_ptr() as u64,
            name_len: text.len() as u32,
            ..Zeroable::zeroed()
        };
        // SAFETY: the only address that is not zero is the buffer's, with its length beside it.
        let answered = unsafe { super::id::info_with(fd.as_fd(), &mut info) };
        if answered.is_ok() && info.kernel_btf != 0 && sys::text(&text) == name {
            return Ok((id, fd));
        }
    }
    Err(Error::Unavailable {
        what: "a module's type information (BTF)",
        why: format!("the kernel has none for {name}"),
    })
}

/// Loads a BTF blob (`BPF_BTF_LOAD`).
///
/// # Errors
/// [`Error::Load`] with the kernel's log.
pub fn load_btf(blob: &[u8]) -> Result<OwnedFd> {
    let mut argument = sys::BtfLoad {
        btf: blob.as_ptr() as u64,
        btf_size: blob.len() as u32,
        ..Zeroable::zeroed()
    };
    // SAFETY: the blob is `btf_size` bytes, and the command answers with a new descriptor.
    let errno = match unsafe { sys::call_for_fd(Command::BtfLoad, &mut argument) } {
        Ok(fd) => return Ok(fd),
        Err(errno) => errno,
    };
    let mut log = vec![0u8; 1 << 20];
    argument.log_buf = log.as_mut_ptr() as u64;
    argument.log_size = log.len() as u32;
    argument.log_level = 1;
    // SAFETY: as above, and the log has `log_size` bytes to write to.
    match unsafe { sys::call_for_fd(Command::BtfLoad, &mut argument) } {
        Ok(fd) => Ok(fd),
        Err(_) => Err(Error::Load {
            program: "types (BTF)".to_owned(),
            errno,
            log: sys::text(&log),
        }),
    }
}

/// The bytes of types that were loaded into the kernel, by their id.
///
/// # Errors
/// [`Error::System`] if they are gone, or `EPERM` without the right to ask.
pub fn btf_bytes(id: u32) -> Result<Vec<u8>> {
    let fd = super::id::open(Command::BtfFdById, id, "open the types with id")?;
    let failed = |errno| Error::system("read the types with id", id.to_string(), errno);
    let info: sys::BtfInfo = super::id::info(fd.as_fd()).map_err(failed)?;
    let mut bytes = vec![0u8; info.btf_size as usize];
    let mut info = sys::BtfInfo {
        btf: bytes.as_mut_ptr() as u64,
        btf_size: bytes.len() as u32,
        ..Zeroable::zeroed()
    };
    // SAFETY: the only address that is not zero is the buffer's, with its length beside it.
    unsafe { super::id::info_with(fd.as_fd(), &mut info) }.map_err(failed)?;
    bytes.truncate(info.btf_size as usize);
    Ok(bytes)
}
