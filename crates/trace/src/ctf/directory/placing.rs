//! Places of traces on disk: free places, traces that are set aside, and those that take their place when they are whole.

use super::METADATA;
use super::contents::{beside, check_own, clear, foreign, is_begun, is_free_folder, is_trace};
use super::lock::Lock;
use crate::error::{Error, Result};
use crate::files::Folder;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Path at which a trace for `path` is written until it is whole.
pub fn staging_path(path: &Path) -> PathBuf {
    let leaf = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(beside(&leaf))
}

/// Whether a trace may be put at `path`: there is nothing, an empty directory, an old trace, or the beginning of one.
///
/// # Errors
/// [`Error::Busy`] where another process writes a trace there.
pub fn is_free(path: &Path) -> Result<bool> {
    let found = Folder::find(path).map_err(Error::io("read directory", path))?;
    let Some(folder) = found else { return Ok(true) };
    folder.check().map_err(Error::io("write to", path))?;
    Lock::take(&folder, path)?;
    is_free_folder(&folder).map_err(Error::io("read directory", path))
}

/// Moves a trace that lies at `path` aside, to the same name with `.old` behind it, where it takes the place of an older one; without a trace there nothing happens.
///
/// # Errors
/// [`Error::Busy`] where another process writes it; [`Error::InTheWay`] and [`Error::Occupied`] where something of others lies in it or in the way.
pub fn keep_old(path: &Path) -> Result<()> {
    let found = Folder::find(path).map_err(not_kept(path))?;
    let Some(folder) = found.filter(is_trace) else {
        return Ok(());
    };
    folder.check().map_err(not_kept(path))?;
    let _held = Lock::take(&folder, path)?;
    check_own(&folder, path)?;
    let (above, leaf) = Folder::above(path, false).map_err(not_kept(path))?;
    let old: OsString = [leaf.as_os_str(), OsStr::new(".old")].into_iter().collect();
    let old_path = path.with_file_name(&old);
    match above.folder(&old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        older => {
            let older = older.map_err(not_kept(&old_path))?;
            older.check().map_err(not_kept(&old_path))?;
            let _held = Lock::take(&older, &old_path)?;
            if !is_free_folder(&older).map_err(not_kept(&old_path))? {
                return Err(Error::Occupied { path: old_path });
            }
            check_own(&older, &old_path)?;
            let gone = clear(&older).and_then(|()| above.remove_folder(&old));
            gone.map_err(Error::io("remove the old trace in", &old_path))?;
        }
    }
    above.move_to(&leaf, &above, &old).map_err(not_kept(path))
}

fn not_kept(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    Error::io("keep the old trace in", path)
}

/// Makes a folder in which several traces shall lie, where there is none; it must not be a trace itself, nor another user's.
pub fn create_folder(path: &Path) -> Result<()> {
    let (above, leaf) = Folder::above(path, true).map_err(Error::io("create directory", path))?;
    let folder = above
        .own_folder(leaf)
        .map_err(Error::io("create directory", path))?;
    match folder.has(METADATA) {
        true => Err(Error::Occupied { path: path.into() }),
        false => Ok(()),
    }
}

/// Moves a finished trace to its place; an old trace there is removed. A process killed in here leaves the one or the other there, whole.
pub fn publish(from: &Path, to: &Path) -> Result<()> {
    let failed = || Error::io("write", to);
    let (beside, new) = Folder::above(from, false).map_err(failed())?;
    let whole = beside.folder(&new).map_err(failed())?;
    whole.check().map_err(failed())?;
    let (above, leaf) = Folder::above(to, false).map_err(failed())?;
    let old = match above.folder(&leaf) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return beside.move_to(&new, &above, &leaf).map_err(failed());
        }
        old => old.map_err(failed())?,
    };
    old.check().map_err(failed())?;
    // Held until what lies there is gone: a process that begins to write a trace there meanwhile would lose it.
    let _held = Lock::take(&old, to)?;
    if !is_free_folder(&old).map_err(Error::io("read directory", to))? {
        return Err(Error::Occupied { path: to.into() });
    }
    if is_begun(&old).map_err(Error::io("read directory", to))? {
        clear(&old).map_err(Error::io("clear", to))?;
    }
    if !is_trace(&old) {
        // An empty directory gives way to another.
        return beside.move_to(&new, &above, &leaf).map_err(failed());
    }
    if let Some(foreign) = foreign(&old).map_err(Error::io("read directory", to))? {
        return Err(Error::InTheWay {
            path: to.join(foreign),
        });
    }
    exchange(&beside, &new, &above, &leaf).map_err(failed())?;
    // Now the old trace lies where the new one was.
    let gone = clear(&old).and_then(|()| beside.remove_folder(&new));
    gone.map_err(Error::io("remove the old trace in", from))
}

/// Two directories take each other's place, at once where the file system can do that.
fn exchange(beside: &Folder, new: &OsStr, above: &Folder, leaf: &OsStr) -> io::Result<()> {
    match beside.exchange(new, above, leaf) {
        // Some file systems cannot: there is a moment in which nothing lies at the place, and the old trace beside it.
        Err(error) if is_no_exchange(&error) => {
            let aside = OsString::from(exchange_name(&leaf.to_string_lossy()));
            above.move_to(leaf, above, &aside)?;
            beside.move_to(new, above, leaf)?;
            above.move_to(&aside, beside, new)
        }
        done => done,
    }
}

fn is_no_exchange(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::INVAL, Errno::NOSYS]
        .map(Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error())
}

/// Removes a trace and its directory; nothing in a directory of another user's.
pub fn discard(path: &Path) -> io::Result<()> {
    let (above, leaf) = Folder::above(path, false)?;
    let folder = above.folder(&leaf)?;
    folder.check()?;
    clear(&folder)?;
    above.remove_folder(leaf)
}

/// The name that a file at `leaf` gets while another takes its place.
fn exchange_name(leaf: &str) -> String {
    format!(".{leaf}.old")
}
