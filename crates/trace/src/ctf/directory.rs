//! A trace's directory on disk: the one place of this crate that touches files.

mod contents;
mod lock;
mod mending;
mod opening;
mod placing;

use super::METADATA;
use super::SIDE;
use super::block::Packer;
use super::packed::{PackedOut, SUFFIX, StreamOut};
use super::write::{Folder as WriteFolder, Writer, side_files, tasks_file, unwound_file};
use crate::decode::EventTable;
use crate::error::{Error, Result};
use crate::files::Folder;
use crate::info::TraceInfo;
use crate::process::Processes;
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;
use contents::{beside, clear, foreign, is_begun, is_trace, ours};
use lock::Lock;
pub use mending::{Tail, mend, sync};
pub use opening::{Trace, open};
pub use placing::{create_folder, discard, is_free, keep_old, publish, staging_path};
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A trace's directory while it is written.
#[derive(Debug)]
pub struct Directory {
    folder: Folder,
    path: PathBuf,
    /// Streams are packed: their events, and zstd's level.
    packed: Option<(EventTable, u8)>,
    /// The lock that keeps other writers away; none where a trace that is there gets something more.
    _lock: Option<Lock>,
}

/// Creates a trace directory and its metadata. An existing directory must be empty, or hold what a writer left that was killed before its trace had
/// metadata, or, with `replace`, a trace, which is removed: only where all that lies there is a trace's, else nothing. No other process creates one there while the writer lives.
///
/// # Errors
/// [`Error::Busy`] where another process writes a trace there; [`Error::InTheWay`] and [`Error::Occupied`] where something else lies there.
pub fn create(path: &Path, info: TraceInfo, replace: bool) -> Result<Writer<Directory>> {
    create_packed(path, info, replace, None)
}

/// Creates a trace directory as [`create`] does; with a level, its streams are compressed by zstd at that.
///
/// # Errors
/// As [`create`].
pub fn create_packed(
    path: &Path,
    info: TraceInfo,
    replace: bool,
    level: Option<u8>,
) -> Result<Writer<Directory>> {
    let (folder, lock) = made(path)?;
    if (replace && is_trace(&folder)) || is_begun(&folder).map_err(Error::io("read directory", path))? {
        if let Some(foreign) = foreign(&folder).map_err(Error::io("read directory", path))? {
            return Err(Error::InTheWay {
                path: path.join(foreign),
            });
        }
        clear(&folder).map_err(Error::io("remove the old trace in", path))?;
    }
    let entries = folder.entries().map_err(Error::io("read directory", path))?;
    if !entries.is_empty() {
        return Err(Error::Occupied { path: path.into() });
    }
    let directory = Directory {
        folder,
        path: path.into(),
        packed: level.map(|level| (EventTable::new(info.events.iter().cloned()), level)),
        _lock: Some(lock),
    };
    Writer::create(directory, info)
}

/// A directory that is its owner's alone where there was none (records of a kernel are private), held and locked.
fn made(path: &Path) -> Result<(Folder, Lock)> {
    let failed = || Error::io("create directory", path);
    for _ in 0..ATTEMPTS {
        let (above, leaf) = Folder::above(path, true).map_err(failed())?;
        let folder = above.own_folder(&leaf).map_err(failed())?;
        let lock = Lock::take(&folder, path)?;
        // The former holder of the lock may have put another directory there.
        if is_there(&folder, &above, &leaf) {
            return Ok((folder, lock));
        }
    }
    Err(Error::Busy { path: path.into() })
}

/// Most attempts where another directory appears in the place of the opened one.
const ATTEMPTS: u32 = 5;

/// Whether a folder still has its name.
fn is_there(folder: &Folder, above: &Folder, leaf: &OsStr) -> bool {
    above.folder(leaf).is_ok_and(|named| named.is(folder))
}

/// Writes what CTF cannot hold beside the streams of a trace that is there.
pub fn complete(
    path: &Path,
    summary: &Summary,
    symbols: &Symbols,
    processes: &Processes,
    tasks: &Tasks,
    unwound: &Unwound,
) -> Result<()> {
    let mut directory = Directory {
        folder: ours(path)?,
        path: path.into(),
        packed: None,
        _lock: None,
    };
    tasks_file(&mut directory, tasks)?;
    if !unwound.is_empty() {
        unwound_file(&mut directory, unwound)?;
    }
    side_files(&mut directory, summary, symbols, processes)
}

impl Directory {
    /// Sets `bytes` of the disk aside for the summary, which is wanted most where the disk gets full meanwhile. Where that is not possible, it has
    /// to do without.
    pub fn reserve(&self, bytes: u64) {
        use rustix::fs::{FallocateFlags, fallocate};
        let inner = self.folder.own_folder(SIDE);
        if let Ok(file) = inner.and_then(|inner| inner.write(beside(Summary::FILE))) {
            _ = fallocate(file, FallocateFlags::empty(), 0, bytes);
        }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl WriteFolder for Directory {
    type File = StreamOut;

    fn create(&mut self, name: &str) -> Result<StreamOut> {
        let make = |name: &str| {
            let file = self.folder.write(name)?;
            file.set_len(0)?;
            Ok(file)
        };
        let made = match &self.packed {
            None => make(name).map(StreamOut::Plain),
            Some((events, level)) => make(&format!("{name}{SUFFIX}")).and_then(|file| {
                let packer = Packer::new(events.clone(), *level)?;
                Ok(StreamOut::Packed(Box::new(PackedOut::new(file, packer))))
            }),
        };
        made.map_err(Error::io("create", self.path.join(name)))
    }

    /// Writes beside, then renames: readers see the old or the new bytes, never a part.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let inner;
        let (folder, leaf) = match name.rsplit_once('/') {
            None => (&self.folder, name),
            Some((above, leaf)) => {
                inner = self
                    .folder
                    .own_folder(above)
                    .map_err(Error::io("create directory", self.path.join(above)))?;
                (&inner, leaf)
            }
        };
        replace_file(folder, leaf, bytes).map_err(Error::io("write", path))
    }
}

/// Gives a file of a folder other contents at one blow. What was reserved beside it is written over, so that a full disk has room for it.
///
/// # Errors
/// Errors of the system; then the file is as it was, and nothing half written is left.
pub fn replace_file(folder: &Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(name);
    let written = folder.write(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)
    });
    let written = written.and_then(|()| folder.rename(&beside, name));
    if written.is_err() {
        // The disk may be full. That this can fail too changes nothing.
        _ = folder.remove_file(&beside);
    }
    written
}
