//! Waiting for another command that changes the same session: which process that is, as data.

use kestrel_kernel::{Host, procfs};
use kestrel_trace::print::shown;
use std::fmt;
use std::path::Path;

/// A wait for another command that is changing the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The session that another command is changing.
    pub session: String,
    /// The command that holds the lock, where the kernel shows it.
    pub holder: Option<Holder>,
}

/// A process that is changing a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process's number.
    pub pid: u32,
    /// The process's command line.
    pub command: String,
    /// Whether it is stopped (Ctrl-Z, SIGSTOP).
    pub stopped: bool,
}

impl Holder {
    /// The process that holds the lock on this file.
    pub fn of(host: &Host, path: &Path) -> Option<Self> {
        let pid = procfs::holder(host, path)?;
        let words = procfs::command_line(host, pid).unwrap_or_default();
        Some(Self {
            pid,
            command: match words.is_empty() {
                true => procfs::comm(host, pid).unwrap_or_default(),
                false => words.join(" "),
            },
            stopped: procfs::is_stopped(host, pid).unwrap_or(false),
        })
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another command is changing the session {}", self.session)?;
        let Some(Holder {
            pid,
            command,
            stopped,
        }) = &self.holder
        else {
            return Ok(());
        };
        write!(f, ": process {pid} ({})", shown(command))?;
        match stopped {
            true => write!(f, ", which is stopped: `kill -CONT {pid}` lets it go on"),
            false => Ok(()),
        }
    }
}
