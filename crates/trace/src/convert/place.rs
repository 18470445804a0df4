//! Output of a conversion, a file or a folder: written beside its place, which it takes when it is whole.

use crate::error::{Error, Result};
use crate::files::Folder;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The place of a file or a folder.
#[derive(Clone, Debug)]
pub struct OutputPath {
    folder: Arc<Folder>,
    leaf: OsString,
    path: PathBuf,
}

/// A file that gets its name when it is whole; dropped before, it is removed.
#[derive(Debug)]
pub(super) struct NewFile {
    place: OutputPath,
    file: BufWriter<File>,
    /// Bytes written.
    at: u64,
    whole: bool,
}

/// A folder that gets its name when all files in it are whole; dropped before, it is removed with them.
#[derive(Debug)]
pub(super) struct NewFolder {
    place: OutputPath,
    folder: Folder,
    files: Vec<String>,
    whole: bool,
}

/// Suffix of names until the files are whole.
const NEW: &str = ".new";

impl OutputPath {
    /// The place of that path; folders that are missing on the way are made.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn at(path: &Path) -> Result<Self> {
        let failed = Error::io("write", path);
        let (folder, leaf) = Folder::above(path, true).map_err(failed)?;
        Ok(Self {
            folder: Arc::new(folder),
            leaf,
            path: path.to_owned(),
        })
    }

    /// The place beside it whose name has something more at its end.
    pub(super) fn with(&self, ending: &str) -> Self {
        let longer = |name: &OsStr| [name, OsStr::new(ending)].into_iter().collect::<OsString>();
        Self {
            folder: Arc::clone(&self.folder),
            leaf: longer(&self.leaf),
            path: longer(self.path.as_os_str()).into(),
        }
    }

    /// Closure for `map_err`: writing failed.
    pub(super) fn failed(&self) -> impl FnOnce(io::Error) -> Error + use<> {
        Error::io("write", self.path.clone())
    }

    /// The path of the file or directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn beside(&self, ending: &str) -> OsString {
        [OsStr::new("."), &self.leaf, OsStr::new(ending)]
            .into_iter()
            .collect()
    }

    /// A new file for it.
    pub(super) fn file(self) -> Result<NewFile> {
        if self.folder.has(&self.leaf) && !self.folder.has_file(&self.leaf) {
            let why = io::Error::other("it is there, and is no ordinary file; name another place");
            return Err(self.failed()(why));
        }
        let name = self.beside(NEW);
        let made = self.folder.write(&name);
        let made = made.and_then(|file| file.set_len(0).map(|()| file));
        let file = BufWriter::with_capacity(1 << 18, made.map_err(self.failed())?);
        Ok(NewFile {
            place: self,
            file,
            at: 0,
            whole: false,
        })
    }

    /// A new folder for it, where nothing is.
    pub(super) fn folder(self) -> Result<NewFolder> {
        if self.folder.has(&self.leaf) {
            let why = "something is there; move it away, or name another place";
            return Err(self.failed()(io::Error::new(io::ErrorKind::AlreadyExists, why)));
        }
        let folder = self.folder.own_folder(self.beside(NEW)).map_err(self.failed())?;
        // One that was killed may have left some.
        for entry in folder.entries().map_err(self.failed())? {
            folder.remove_file(&entry.name).map_err(self.failed())?;
        }
        Ok(NewFolder {
            place: self,
            folder,
            files: Vec::new(),
            whole: false,
        })
    }

    /// A file without a name beside it, for what comes later in the file than it is known.
    pub(super) fn spool(&self, number: u32) -> Result<File> {
        let name = self.beside(&format!(".{number}"));
        let made = self.folder.write(&name);
        let made = made.and_then(|file| self.folder.remove_file(&name).map(|()| file));
        made.and_then(|file| file.set_len(0).map(|()| file))
            .map_err(self.failed())
    }
}

impl NewFile {
    /// Bytes written.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Appends bytes behind those written.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(self.place.failed())?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Appends all of a spool.
    pub(super) fn append_all(&mut self, spool: &mut File) -> Result<()> {
        let copied = spool.seek(SeekFrom::Start(0));
        let copied = copied.and_then(|_| io::copy(spool, &mut self.file));
        self.at += copied.map_err(self.place.failed())?;
        Ok(())
    }

    /// Writes bytes over the first ones.
    pub(super) fn begin_with(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.seek(SeekFrom::Start(0));
        let written = written.and_then(|_| self.file.write_all(bytes));
        let written = written.and_then(|()| self.file.seek(SeekFrom::End(0)));
        written.map(|_| ()).map_err(self.place.failed())
    }

    /// Gives it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let place = self.place.clone();
        let named = self.file.flush();
        let named = named.and_then(|()| place.folder.rename(place.beside(NEW), &place.leaf));
        named.map_err(place.failed())?;
        self.whole = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.whole {
            // It may be gone; nothing changes by that.
            _ = self.place.folder.remove_file(self.place.beside(NEW));
        }
    }
}

impl NewFolder {
    /// A new file in it, whose name has something behind it where another one is called so.
    pub(super) fn file(&mut self, name: &str, ending: &str) -> Result<BufWriter<File>> {
        let plain: String = name
            .chars()
            .map(|c| if c == '/' || c.is_control() { '_' } else { c })
            .take(200)
            .collect();
        let mut name = format!("{plain}{ending}");
        let mut number = 2;
        while self.files.contains(&name) {
            name = format!("{plain}-{number}{ending}");
            number += 1;
        }
        let file = self.folder.write(&name).map_err(self.place.failed())?;
        self.files.push(name);
        Ok(BufWriter::with_capacity(1 << 16, file))
    }

    /// Closure for `map_err`: writing a file failed.
    pub(super) fn failed(&self) -> impl FnOnce(io::Error) -> Error + use<> {
        self.place.failed()
    }

    /// Gives it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let place = &self.place;
        let named = place.folder.rename(place.beside(NEW), &place.leaf);
        named.map_err(place.failed())?;
        self.whole = true;
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.whole {
            // They may be gone; nothing changes by that.
            for name in &self.files {
                _ = self.folder.remove_file(name);
            }
            _ = self.place.folder.remove_folder(self.place.beside(NEW));
        }
    }
}
