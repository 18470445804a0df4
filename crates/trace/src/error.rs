//! Errors about traces, in one enum: what was attempted, on what, and what the system said.

use std::io;
use std::path::{Path, PathBuf};

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a trace could not be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each case and field is")]
pub enum Error {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot open trace {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
    #[error("{} exists and is not an empty directory", path.display())]
    Occupied { path: PathBuf },
    #[error("another process is writing a trace to {}", path.display())]
    Busy { path: PathBuf },
    #[error("{} is not part of the trace that would be replaced; move it away, or name another directory", path.display())]
    InTheWay { path: PathBuf },
    #[error("{} is not a trace directory: it has no metadata file", path.display())]
    NoMetadata { path: PathBuf },
    #[error("{} is no recording: it is neither a trace directory nor a file of one of {}", path.display(), formats.join(", "))]
    Unknown {
        path: PathBuf,
        formats: Vec<&'static str>,
    },
    #[error("{} holds several traces, of which one can be read at a time: {}", path.display(), traces.iter().map(|trace| trace.display().to_string()).collect::<Vec<_>>().join(", "))]
    Several { path: PathBuf, traces: Vec<PathBuf> },
    #[error("cannot read {} as {format}: {why}", path.display())]
    Foreign {
        path: PathBuf,
        format: &'static str,
        why: String,
    },
    #[error("cannot read {what}: {why}")]
    Side { what: String, why: String },
    #[error("cannot understand the trace's metadata, line {line}: {why}")]
    Metadata { line: u32, why: String },
    #[error("cannot describe event {event} in CTF: field {field} {why}")]
    Inexpressible {
        event: String,
        field: String,
        why: &'static str,
    },
    #[error("cannot describe the trace in CTF: {0}")]
    Contradiction(String),
    #[error("cannot append {bytes} bytes to a trace: not a whole number of pages")]
    Fraction { bytes: usize },
    #[error("cannot take a trace out of the memory image, for {}: {source}", path.display())]
    Image { path: PathBuf, source: Unreadable },
    #[error("buffer {0} is not one of the trace's")]
    UnknownBuffer(u32),
    /// The file was cut back to whole packets; the trace can be read up to there.
    #[error(
        "cannot append to {stream}: {source}; {kept} whole packets were kept in this file, {lost} were not written"
    )]
    Append {
        stream: String,
        kept: u64,
        lost: u64,
        source: io::Error,
    },
}

/// Why a file cannot be read as an image of memory.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each case and field is")]
pub enum Unreadable {
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    #[error("it is {format}, but {what}")]
    Broken {
        format: &'static str,
        what: &'static str,
    },
}

impl Error {
    /// Closure for `map_err`: `action` failed on `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Closure for `map_err`: an image could not be read while the trace at `path` was taken out of it.
    pub(crate) fn image(path: &Path) -> impl FnOnce(Unreadable) -> Self {
        let path = path.to_owned();
        move |source| Self::Image { path, source }
    }

    /// The error with the trace's directory before the name of a stream.
    #[must_use]
    pub fn within(mut self, directory: &Path) -> Self {
        if let Self::Append { stream, .. } = &mut self {
            *stream = directory.join(&*stream).display().to_string();
        }
        self
    }

    /// Kind of failure that the system reported, if it did: `BrokenPipe` where the reader has gone.
    pub fn kind(&self) -> Option<std::io::ErrorKind> {
        match self {
            Self::Io { source, .. } | Self::Open { source, .. } | Self::Append { source, .. } => {
                Some(source.kind())
            }
            _ => None,
        }
    }

    /// The system's reason, without what was attempted; all of it where it was not the system.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { source, .. } | Self::Open { source, .. } | Self::Append { source, .. } => {
                source.to_string()
            }
            other => other.to_string(),
        }
    }

    /// The system's error number, if the system said so: `ENOSPC` for a full disk.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::Open { source, .. } | Self::Append { source, .. } => {
                source.raw_os_error()
            }
            _ => None,
        }
    }
}
