//! A trace's directory on disk: the one place of this crate that touches files.

mod lock;

use super::packet::Packet;
use super::read::Reader;
use super::write::{Folder, StreamFile, Writer, side_files};
use super::{METADATA, SIDE, metadata};
use crate::aggregate::KeptMaps;
use crate::error::{Error, Result};
use crate::info::TraceInfo;
use crate::packet::{MAGIC, PAGE};
use crate::process::Processes;
use crate::report::{Options, Report};
use crate::summary::Summary;
use crate::symbol::Symbols;
use lock::Lock;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What may lie beside the streams.
const SIDE_FILES: [&str; 4] = [Summary::FILE, Symbols::FILE, Processes::FILE, KeptMaps::FILE];

/// Where a trace is written.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Nobody else writes here meanwhile; none where a trace that is there gets something more.
    _lock: Option<Lock>,
}

/// A trace opened for reading.
#[derive(Debug)]
pub struct Trace {
    /// Its records.
    pub reader: Reader<File>,
    /// Packets in its streams, a started one counted as one.
    pub packets: u64,
    /// What its recorder counted, if that was written.
    pub summary: Option<Summary>,
    /// The kernel's names of addresses; empty if none were written.
    pub symbols: Symbols,
    /// Names of threads; empty if none were written.
    pub processes: Processes,
    /// What the handlers' maps held at the end; none if none were written, or they cannot be read.
    pub maps: KeptMaps,
    /// Why something beside the streams is left out.
    pub remarks: Vec<String>,
}

impl Trace {
    /// Reads the trace to its end and answers the usual questions, and which values `field` takes, if one is named.
    pub fn report(mut self, field: Option<String>) -> Result<Report> {
        let options = Options {
            processes: self.processes,
            symbols: self.symbols,
            summary: self.summary,
            field,
            maps: self.maps,
            remarks: self.remarks,
        };
        Report::gather(&mut self.reader, options)
    }
}

/// Creates a trace directory and its metadata. An existing directory must be empty, or, with `replace`, a trace, which is
/// removed: only where all that lies there is a trace's, else nothing. Nobody else creates one there while the writer lives.
///
/// # Errors
/// [`Error::Busy`] where somebody writes a trace there; [`Error::InTheWay`] and [`Error::Occupied`] where something else lies there.
pub fn create(path: &Path, info: TraceInfo, replace: bool) -> Result<Writer<Directory>> {
    make_directory(path)?;
    let lock = Lock::take(path)?;
    if replace && path.join(METADATA).is_file() {
        if let Some(foreign) = foreign(path).map_err(Error::io("read directory", path))? {
            return Err(Error::InTheWay { path: foreign });
        }
        clear(path).map_err(Error::io("remove the old trace in", path))?;
    }
    let mut entries = fs::read_dir(path).map_err(Error::io("read directory", path))?;
    if entries.next().is_some() {
        return Err(Error::Occupied { path: path.into() });
    }
    let directory = Directory {
        path: path.into(),
        _lock: Some(lock),
    };
    Writer::create(directory, info)
}

/// Where a trace that shall be at `path` is written until it is whole.
pub fn beside_of(path: &Path) -> PathBuf {
    let leaf = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(beside(&leaf))
}

/// Whether a trace may be put at `path`: there is nothing, an empty directory, or an old trace.
///
/// # Errors
/// [`Error::Busy`] where somebody writes a trace there.
pub fn is_free(path: &Path) -> Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            Lock::take(path)?;
            Ok(entries.next().is_none() || path.join(METADATA).is_file())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(Error::io("read directory", path)(e)),
    }
}

/// A folder in which several traces shall lie; it must not be a trace itself.
pub fn create_folder(path: &Path) -> Result<()> {
    if path.join(METADATA).is_file() {
        return Err(Error::Occupied { path: path.into() });
    }
    make_directory(path)
}

/// Makes a directory that is its owner's alone, where there is none: what a kernel does is nobody else's business.
fn make_directory(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(Error::io("create directory", parent))?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.map_err(Error::io("create directory", path)),
    }
}

/// Moves a finished trace to its place; an old trace there is removed. Who is killed in here leaves the one or the other there, whole.
pub fn publish(from: &Path, to: &Path) -> Result<()> {
    if !is_free(to)? {
        return Err(Error::Occupied { path: to.into() });
    }
    if !to.exists() {
        return fs::rename(from, to).map_err(Error::io("write", to));
    }
    // Held until what lies there is gone: whoever begins to write a trace there meanwhile would lose it.
    let _held = Lock::take(to)?;
    if !to.join(METADATA).is_file() {
        // An empty directory gives way to another.
        return fs::rename(from, to).map_err(Error::io("write", to));
    }
    // A link to a directory stays one.
    let to = &fs::canonicalize(to).map_err(Error::io("open", to))?;
    if let Some(foreign) = foreign(to).map_err(Error::io("read directory", to))? {
        return Err(Error::InTheWay { path: foreign });
    }
    exchange(from, to).map_err(Error::io("write", to))?;
    // Now the old trace lies where the new one was.
    discard(from).map_err(Error::io("remove the old trace in", from))
}

/// Two directories take each other's place, at once where the file system can do that.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        // Some file systems cannot: there is a moment in which nothing lies at the place, and the old trace beside it.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            let aside = other.with_file_name(aside(&other.file_name().unwrap_or_default().to_string_lossy()));
            fs::rename(other, &aside)?;
            fs::rename(one, other)?;
            fs::rename(&aside, one)
        }
        done => Ok(done?),
    }
}

/// What lies in a trace's directory and is not the trace's.
fn foreign(path: &Path) -> io::Result<Option<PathBuf>> {
    let side = SIDE_FILES;
    let mut folder = false;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let ours = match name.to_str() {
            Some(SIDE) => {
                folder = kind.is_dir();
                folder
            }
            Some(name) if name == METADATA || name == beside(METADATA) => kind.is_file(),
            Some(name) if is_stream_name(name) => kind.is_file() && holds_packets(&entry.path())?,
            _ => false,
        };
        if !ours {
            return Ok(Some(entry.path()));
        }
    }
    if !folder {
        return Ok(None);
    }
    for entry in fs::read_dir(path.join(SIDE))? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let known = |known: &&str| name == **known || name == *beside(known);
        if !kind.is_file() || !side.iter().any(known) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Whether a file begins as a stream does, or is empty, as a stream is at first.
fn holds_packets(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut head)?;
    Ok(MAGIC.to_le_bytes().starts_with(&head))
}

/// Removes a trace and its directory.
pub fn discard(path: &Path) -> io::Result<()> {
    clear(path)?;
    fs::remove_dir(path)
}

/// Opens a trace directory.
pub fn open(path: &Path) -> Result<Trace> {
    let text = match read(&path.join(METADATA)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.is_dir() => {
            return Err(Error::NoMetadata { path: path.into() });
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::NoMetadata { path: path.into() });
        }
        Err(e) => return Err(Error::io("open trace", path)(e)),
    };
    let info = metadata::parse(&text)?;
    let mut streams = Vec::new();
    let mut packets = 0;
    for name in stream_names(path).map_err(Error::io("read directory", path))? {
        let file = File::open(path.join(&name)).map_err(Error::io("open", path.join(&name)))?;
        let bytes = file
            .metadata()
            .map_err(Error::io("read the size of", path.join(&name)))?;
        packets += bytes.len().div_ceil(u64::from(PAGE));
        streams.push((name, file));
    }
    let side = |name: &str| match read(&path.join(SIDE).join(name)) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", path.join(SIDE).join(name))(e)),
    };
    let mut remarks = Vec::new();
    let maps = side(KeptMaps::FILE).and_then(|text| text.map(|text| KeptMaps::parse(&text)).transpose());
    let maps = maps.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    Ok(Trace {
        maps: maps.unwrap_or_default(),
        remarks,
        reader: Reader::new(info, streams),
        packets,
        summary: side(Summary::FILE)?
            .map(|text| Summary::parse(&text))
            .transpose()?,
        symbols: side(Symbols::FILE)?
            .map(|text| Symbols::parse(&text))
            .transpose()?
            .unwrap_or_default(),
        processes: side(Processes::FILE)?
            .map(|text| Processes::parse(&text))
            .transpose()?
            .unwrap_or_default(),
    })
}

/// Files beside the streams are read whole: longer ones are something else.
const LONGEST: u64 = 1 << 30;

/// All of an ordinary file that lies in a trace. What else has its name, as a device or a pipe, may have no end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if about.len() > LONGEST {
        return Err(io::Error::other(format!(
            "it is longer than {} MiB",
            LONGEST >> 20
        )));
    }
    fs::read(path)
}

/// The visible files beside the metadata, in order of name and number.
fn stream_names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
            && name != METADATA
            && entry.file_type()?.is_file()
        {
            names.push(name);
        }
    }
    names.sort_by_cached_key(|name| match name.rsplit_once('_') {
        Some((buffer, cpu)) => (buffer.to_owned(), cpu.parse::<u32>().unwrap_or(u32::MAX)),
        None => (name.clone(), 0),
    });
    Ok(names)
}

/// Removes a trace's files; what else lies there stays and makes the directory occupied.
fn clear(path: &Path) -> io::Result<()> {
    for name in stream_names(path)? {
        if is_stream_name(&name) {
            fs::remove_file(path.join(name))?;
        }
    }
    for name in SIDE_FILES {
        ignore_missing(fs::remove_file(path.join(SIDE).join(name)))?;
        ignore_missing(fs::remove_file(path.join(SIDE).join(beside(name))))?;
    }
    ignore_missing(fs::remove_dir(path.join(SIDE)))?;
    // What is beside was left by a recorder that was killed while it wrote.
    ignore_missing(fs::remove_file(path.join(beside(METADATA))))?;
    fs::remove_file(path.join(METADATA))
}

/// The name of the file that becomes `leaf`.
fn beside(leaf: &str) -> String {
    format!(".{leaf}.new")
}

/// Where what is at `leaf` waits while something else comes there.
fn aside(leaf: &str) -> String {
    format!(".{leaf}.old")
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn is_stream_name(name: &str) -> bool {
    let number = name.rsplit_once('_').map(|(_, cpu)| cpu);
    number.is_some_and(|cpu| !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A file that nobody but its owner reads, where there is none.
fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// Writes what CTF cannot hold beside the streams of a trace that is there.
pub fn complete(path: &Path, summary: &Summary, symbols: &Symbols, processes: &Processes) -> Result<()> {
    let mut directory = Directory {
        path: path.into(),
        _lock: None,
    };
    side_files(&mut directory, summary, symbols, processes)
}

/// Where a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The number of its buffer.
    pub buffer: u32,
    /// Its CPU.
    pub cpu: u32,
    /// The sequence number of its last packet.
    pub sequence: u64,
    /// Its packets.
    pub packets: u64,
}

/// Cuts the streams of a trace whose writer was stopped back to whole packets, and tells where each ends; streams without packets are left out.
pub fn mend(path: &Path) -> Result<Vec<Tail>> {
    let mut tails = Vec::new();
    for name in stream_names(path).map_err(Error::io("read directory", path))? {
        let file = path.join(name);
        tails.extend(mend_stream(&file).map_err(Error::io("mend", &file))?);
    }
    Ok(tails)
}

fn mend_stream(path: &Path) -> io::Result<Option<Tail>> {
    use std::os::unix::fs::FileExt;
    let file = File::options().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len();
    let page = u64::from(PAGE);
    let packets = bytes / page;
    if bytes > packets * page {
        file.set_len(packets * page)?;
    }
    let Some(last) = packets.checked_sub(1) else {
        return Ok(None);
    };
    let mut bytes = [0; PAGE as usize];
    file.read_exact_at(&mut bytes, last * page)?;
    let packet = Packet::parse(&bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    Ok(Some(Tail {
        buffer: packet.buffer,
        cpu: packet.cpu,
        sequence: packet.sequence,
        packets,
    }))
}

/// Lets the disk have all of a trace.
pub fn sync(path: &Path) -> Result<()> {
    let mut names = stream_names(path).map_err(Error::io("read directory", path))?;
    names.push(METADATA.to_owned());
    for name in names {
        let file = path.join(name);
        let synced = File::open(&file).and_then(|file| file.sync_all());
        synced.map_err(Error::io("write to the disk", &file))?;
    }
    Ok(())
}

impl Directory {
    /// Sets `bytes` of the disk aside for the summary, which is wanted most where the disk gets full meanwhile. Where that is not possible, it has
    /// to do without.
    pub fn reserve(&self, bytes: u64) {
        use rustix::fs::{FallocateFlags, fallocate};
        let folder = self.path.join(SIDE);
        let file = make_directory(&folder)
            .ok()
            .and_then(|()| private(&folder.join(beside(Summary::FILE))).ok());
        if let Some(file) = file {
            _ = fallocate(file, FallocateFlags::empty(), 0, bytes);
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Folder for Directory {
    type File = File;

    fn create(&mut self, name: &str) -> Result<File> {
        let path = self.path.join(name);
        private(&path)
            .and_then(|file| file.set_len(0).map(|()| file))
            .map_err(Error::io("create", path))
    }

    /// Writes beside, then renames: readers see the old or the new bytes, never a part.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        let leaf = name.rsplit('/').next().unwrap_or(name);
        let beside = path.with_file_name(beside(leaf));
        // What was reserved there is written over, so that a full disk has room for it.
        let written = private(&beside)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.set_len(bytes.len() as u64)
            })
            .and_then(|()| fs::rename(&beside, &path));
        written.map_err(|e| {
            // The disk may be full: leave nothing half written behind. That this can fail too changes nothing.
            _ = fs::remove_file(&beside);
            Error::io("write", path)(e)
        })
    }
}

impl StreamFile for File {
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        io::Seek::seek(self, io::SeekFrom::Start(bytes)).map(|_| ())
    }
}
