//! The files that a process has open.

use crate::error::{Error, Result};
use crate::host::Host;
use std::path::PathBuf;

/// Open files of a process, as /proc names them: `/etc/passwd`, `socket:[123]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFiles {
    /// By descriptor.
    pub files: Vec<(u32, PathBuf)>,
    /// The current directory of the process.
    pub current: Option<PathBuf>,
}

/// Open files of a process; a file that is closed meanwhile is left out.
///
/// # Errors
/// When the process is gone, or another user's.
pub fn open_files(host: &Host, pid: u32) -> Result<OpenFiles> {
    let folder = host.path(format!("/proc/{pid}/fd"));
    let entries = std::fs::read_dir(&folder).map_err(|error| Error::file("list", &folder, error))?;
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?))
    };
    Ok(OpenFiles {
        files: entries.filter_map(file).collect(),
        current: std::fs::read_link(host.path(format!("/proc/{pid}/cwd"))).ok(),
    })
}
