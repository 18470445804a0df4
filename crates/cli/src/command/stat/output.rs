//! Destination of `kestrel stat`'s figures: a file, standard output, or standard error where standard output is the command's.

use crate::exit::{Exit, Failure};
use kestrel::kernel::process::inherited;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Destination of the figures.
pub(super) enum Output {
    File(File),
    Stdout,
    Stderr,
}

impl Output {
    /// Opens the file or the descriptor that is given; without either it is standard error beside a command, and else standard output.
    pub(super) fn open(
        path: Option<&Path>,
        append: bool,
        log_fd: Option<i32>,
        beside_command: bool,
    ) -> Result<Self, Failure> {
        if let Some(number) = log_fd {
            return Ok(Self::File(inherited(number)?));
        }
        let Some(path) = path else {
            return Ok(match beside_command {
                true => Self::Stderr,
                false => Self::Stdout,
            });
        };
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(append).truncate(!append);
        options
            .open(path)
            .map(Self::File)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())))
    }

    /// Writes text to the destination.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        match self {
            Self::File(file) => file.write_all(text.as_bytes())?,
            Self::Stdout => {
                let mut out = crate::screen::out();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            Self::Stderr => crate::screen::err().write_all(text.as_bytes())?,
        }
        Ok(())
    }
}
