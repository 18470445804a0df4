//! The kernel's lists of BPF objects by number, and the switch for run statistics; not what the objects are.

use super::sys::{self, Command};
use crate::error::{Errno, Error, Result};
use bytemuck::{Pod, Zeroable};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Numbers of all programs, ascending.
///
/// # Errors
/// [`Error::System`]: `EPERM` without CAP_SYS_ADMIN.
pub fn program_ids() -> Result<Vec<u32>> {
    ids(Command::ProgNextId, "list the programs")
}

/// Numbers of all maps, ascending.
///
/// # Errors
/// As [`program_ids`].
pub fn map_ids() -> Result<Vec<u32>> {
    ids(Command::MapNextId, "list the maps")
}

/// Numbers of all links, ascending.
///
/// # Errors
/// As [`program_ids`].
pub fn link_ids() -> Result<Vec<u32>> {
    ids(Command::LinkNextId, "list the links")
}

/// Numbers of all BTF objects: the kernel's, its modules', those of programs.
///
/// # Errors
/// As [`program_ids`].
pub fn btf_ids() -> Result<Vec<u32>> {
    ids(Command::BtfNextId, "list the BTF objects")
}

fn ids(command: Command, action: &'static str) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    loop {
        let mut argument = sys::Id {
            id: ids.last().copied().unwrap_or(0),
            ..Zeroable::zeroed()
        };
        // SAFETY: the command reads no addresses.
        match unsafe { sys::call(command, &mut argument) } {
            Ok(_) => ids.push(argument.next_id),
            Err(Errno::ENOENT) => return Ok(ids),
            Err(errno) => return Err(Error::system(action, "of this kernel", errno)),
        }
    }
}

pub(super) fn open(command: Command, id: u32, action: &'static str) -> Result<OwnedFd> {
    let mut argument = sys::Id {
        id,
        ..Zeroable::zeroed()
    };
    // SAFETY: the commands given here read no addresses and answer with a new descriptor.
    unsafe { sys::call_for_fd(command, &mut argument) }
        .map_err(|errno| Error::system(action, id.to_string(), errno))
}

/// Kernel information about the object; what it does not know is zero.
pub(super) fn info<I: Pod>(fd: BorrowedFd<'_>) -> std::result::Result<I, Errno> {
    let mut info = I::zeroed();
    // SAFETY: all addresses are zero, which the kernel takes for "not wanted".
    unsafe { info_with(fd, &mut info) }.map(|()| info)
}

/// Like [`info`], with addresses of buffers inside.
///
/// # Safety
/// The addresses in `info` must be zero or valid for writing as many bytes as the length beside them says.
pub(super) unsafe fn info_with<I: Pod>(fd: BorrowedFd<'_>, info: &mut I) -> std::result::Result<(), Errno> {
    let mut argument = sys::InfoByFd {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: size_of::<I>() as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes at `info`, a structure for which any bytes are a value; inner
    // addresses are the caller's promise.
    unsafe { sys::call(Command::ObjInfoByFd, &mut argument) }.map(drop)
}

/// While this lives, the kernel counts and times the runs of every program (`BPF_ENABLE_STATS`), which costs each some 20 ns or more.
#[derive(Debug)]
pub struct Stats {
    _fd: OwnedFd,
}

/// Starts counting and timing the runs of programs.
///
/// # Errors
/// [`Error::System`]: `EPERM` without CAP_SYS_ADMIN.
pub fn enable_stats() -> Result<Stats> {
    let mut argument = sys::LinkUpdate::zeroed(); // BPF_STATS_RUN_TIME is 0
    // SAFETY: the command reads no addresses, and answers with a new descriptor.
    let fd = unsafe { sys::call_for_fd(Command::EnableStats, &mut argument) }
        .map_err(|errno| Error::system("switch on", "run statistics", errno))?;
    Ok(Stats { _fd: fd })
}
