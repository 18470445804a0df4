//! Output shared by commands: formats, columns, and one file per kind of data.

pub(crate) mod calls;
pub(crate) mod checks;
pub(crate) mod columns;
pub(crate) mod groups;
pub(crate) mod json;
pub(crate) mod kprobe_events;
pub(crate) mod kprobe_states;
pub(crate) mod latencies;
pub(crate) mod losses;
pub(crate) mod object_maps;
pub(crate) mod tables;
pub(crate) mod warnings;

use crate::exit::{Exit, Failure};
use clap::ValueEnum;
use kestrel_trace::ctf::directory::replace_file;
use kestrel_trace::files::Folder;
use std::io::ErrorKind;
use std::path::Path;

/// Output format of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines or tables for people
    #[default]
    Text,
    /// JSON, one object per line where there are many
    Json,
}

/// Writes a file whole, or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = Folder::above(path, true).and_then(|(folder, leaf)| {
        let leaf = leaf
            .to_str()
            .ok_or(std::io::ErrorKind::InvalidFilename)?
            .to_owned();
        replace_file(&folder, &leaf, bytes)
    });
    written.map_err(|error| {
        let failure = Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()));
        match error.kind() {
            ErrorKind::StorageFull => {
                failure.hint("the disk is full: free some space, or name a file elsewhere")
            }
            _ => failure,
        }
    })
}
