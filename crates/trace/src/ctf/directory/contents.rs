//! Contents of a trace's directory: which of it is a trace's, and which is something else.

use super::{METADATA, SIDE};
use crate::aggregate::KeptMaps;
use crate::calls::Kept;
use crate::ctf::packed::SUFFIX;
use crate::ctf::{block, metadata};
use crate::error::{Error, Result};
use crate::files::Folder;
use crate::names::KeptNames;
use crate::packet::MAGIC;
use crate::process::{Changes, Processes};
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;
use crate::user_symbol::UserSymbols;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Files that may lie beside the streams.
const SIDE_FILES: [&str; 10] = [
    Summary::FILE,
    Symbols::FILE,
    UserSymbols::FILE,
    Unwound::FILE,
    Processes::FILE,
    Changes::FILE,
    Tasks::FILE,
    KeptMaps::FILE,
    KeptNames::FILE,
    Kept::FILE,
];

/// Files beside the streams are read whole: longer ones are something else.
pub(super) const LONGEST: u64 = 1 << 30;

/// Whether a folder is a trace of Kestrel's, by the contents of its metadata: other folders have such a file, too.
pub(super) fn is_trace(folder: &Folder) -> bool {
    let mut head = Vec::new();
    let read = folder
        .read(METADATA)
        .and_then(|file| file.take(LONGEST).read_to_end(&mut head));
    read.is_ok() && metadata::is_own(&head)
}

/// Whether all that lies in a folder is metadata that had no name yet when its writer was killed: there is no trace.
pub(super) fn is_begun(folder: &Folder) -> io::Result<bool> {
    let new = beside(METADATA);
    let entries = folder.entries()?;
    let [only] = entries.as_slice() else {
        return Ok(false);
    };
    if !only.is_file || only.name != *new {
        return Ok(false);
    }
    let mut head = Vec::new();
    folder.read(&new)?.take(LONGEST).read_to_end(&mut head)?;
    Ok(metadata::is_beginning(&head))
}

pub(super) fn is_free_folder(folder: &Folder) -> io::Result<bool> {
    Ok(folder.entries()?.is_empty() || is_trace(folder) || is_begun(folder)?)
}

/// First foreign entry of a trace's directory, which is not the trace's.
pub(super) fn foreign(folder: &Folder) -> io::Result<Option<PathBuf>> {
    let mut inner = None;
    for entry in folder.entries()? {
        let ours = match entry.name.to_str() {
            Some(SIDE) if entry.is_folder => {
                inner = Some(folder.folder(SIDE)?);
                true
            }
            Some(name) if name == METADATA || name == beside(METADATA) => entry.is_file,
            Some(name) if is_stream_name(name) => entry.is_file && holds_packets(folder, name)?,
            _ => false,
        };
        if !ours {
            return Ok(Some(entry.name.into()));
        }
    }
    let Some(inner) = inner else { return Ok(None) };
    for entry in inner.entries()? {
        let known = |known: &&str| entry.name == **known || entry.name == *beside(known);
        if !entry.is_file || !SIDE_FILES.iter().any(known) {
            return Ok(Some(Path::new(SIDE).join(entry.name)));
        }
    }
    Ok(None)
}

/// Whether a file begins as a stream does, or is empty, as a stream is at first.
fn holds_packets(folder: &Folder, name: &str) -> io::Result<bool> {
    let mut head = Vec::new();
    folder.read(name)?.take(4).read_to_end(&mut head)?;
    let magic = match name.ends_with(SUFFIX) {
        true => block::MAGIC,
        false => MAGIC,
    };
    Ok(magic.to_le_bytes().starts_with(&head))
}

/// Refuses a trace's directory in which something else lies.
pub(super) fn check_own(folder: &Folder, path: &Path) -> Result<()> {
    match foreign(folder).map_err(Error::io("read directory", path))? {
        Some(foreign) => Err(Error::InTheWay {
            path: path.join(foreign),
        }),
        None => Ok(()),
    }
}

/// The visible files beside the metadata, in order of name and number.
pub(super) fn stream_names(folder: &Folder) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.entries()? {
        if let Ok(name) = entry.name.into_string()
            && !name.starts_with('.')
            && name != METADATA
            && entry.is_file
        {
            names.push(name);
        }
    }
    names.sort_by_cached_key(
        |name| match name.strip_suffix(SUFFIX).unwrap_or(name).rsplit_once('_') {
            Some((buffer, cpu)) => (buffer.to_owned(), cpu.parse::<u32>().unwrap_or(u32::MAX)),
            None => (name.clone(), 0),
        },
    );
    Ok(names)
}

/// Removes a trace's files; other files are left and make the directory occupied.
pub(super) fn clear(folder: &Folder) -> io::Result<()> {
    for name in stream_names(folder)? {
        if is_stream_name(&name) {
            folder.remove_file(name)?;
        }
    }
    match folder.folder(SIDE) {
        Ok(inner) => {
            for name in SIDE_FILES {
                ignore_missing(inner.remove_file(name))?;
                ignore_missing(inner.remove_file(beside(name)))?;
            }
            folder.remove_folder(SIDE)?;
        }
        Err(error) => ignore_missing(Err(error))?,
    }
    // Files beside were left by a recorder that was killed while it wrote.
    ignore_missing(folder.remove_file(beside(METADATA)))?;
    ignore_missing(folder.remove_file(METADATA))
}

/// The name of the file that becomes `leaf`.
pub(super) fn beside(leaf: &str) -> String {
    format!(".{leaf}.new")
}

pub(super) fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

pub(super) fn is_stream_name(name: &str) -> bool {
    let name = name.strip_suffix(SUFFIX).unwrap_or(name);
    let number = name.rsplit_once('_').map(|(_, cpu)| cpu);
    number.is_some_and(|cpu| !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The directory of a trace that is there, which others could not have exchanged.
pub(super) fn ours(path: &Path) -> Result<Folder> {
    let failed = || Error::io("write to", path);
    let folder = Folder::find(path).map_err(failed())?;
    let folder = folder.ok_or(io::ErrorKind::NotFound.into()).map_err(failed())?;
    folder.check().map_err(failed())?;
    Ok(folder)
}
