//! The files that a process has open.

use crate::error::{Error, Result};
use crate::host::Host;
use std::path::PathBuf;

/// The descriptors of a process with what /proc calls the files behind them (`/etc/passwd`, `socket:[123]`), and its current directory.
///
/// # Errors
/// That the process is gone, or somebody else's.
pub fn open_files(host: &Host, pid: u32) -> Result<(Vec<(u32, PathBuf)>, Option<PathBuf>)> {
    let folder = host.path(format!("/proc/{pid}/fd"));
    let entries = std::fs::read_dir(&folder).map_err(|error| Error::file("list", &folder, error))?;
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        // One that was closed meanwhile is none.
        Some((number, std::fs::read_link(entry.path()).ok()?))
    };
    let current = std::fs::read_link(host.path(format!("/proc/{pid}/cwd"))).ok();
    Ok((entries.filter_map(file).collect(), current))
}
