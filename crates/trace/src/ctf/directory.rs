//! A trace's directory on disk: the one place of this crate that touches files.

mod lock;

use super::block::{self, Packer};
use super::packed::{PackedOut, SUFFIX, StreamIn, StreamOut, count_packets};
use super::packet::Packet;
use super::read::Reader;
use super::write::{Folder as Place, Writer, side_files, tasks_file, unwound_file};
use super::{METADATA, SIDE, metadata};
use crate::aggregate::KeptMaps;
use crate::calls::Kept;
use crate::decode::EventTable;
use crate::error::{Error, Result};
use crate::files::Folder;
use crate::info::TraceInfo;
use crate::packet::{MAGIC, PAGE};
use crate::process::Processes;
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;
use crate::user_symbol::UserSymbols;
use lock::Lock;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// What may lie beside the streams.
const SIDE_FILES: [&str; 8] = [
    Summary::FILE,
    Symbols::FILE,
    UserSymbols::FILE,
    Unwound::FILE,
    Processes::FILE,
    Tasks::FILE,
    KeptMaps::FILE,
    Kept::FILE,
];

/// Where a trace is written.
#[derive(Debug)]
pub struct Directory {
    folder: Folder,
    path: PathBuf,
    /// Streams are packed: their events, and zstd's level.
    packed: Option<(EventTable, u8)>,
    /// The lock that keeps other writers away; none where a trace that is there gets something more.
    _lock: Option<Lock>,
}

/// A trace opened for reading.
#[derive(Debug)]
pub struct Trace {
    /// Its records.
    pub reader: Reader<StreamIn>,
    /// Packets in its streams, a started one counted as one.
    pub packets: u64,
    /// What its recorder counted, if that was written.
    pub summary: Option<Summary>,
    /// Names of addresses of the kernel and of processes; empty if none were written.
    pub symbols: Symbols,
    /// Names of threads; empty if none were written.
    pub processes: Processes,
    /// Processes of threads, and those that the recording is about; empty if that was not written, or cannot be read.
    pub tasks: Tasks,
    /// What the handlers' maps held at the end; none if none were written, or they cannot be read.
    pub maps: KeptMaps,
    /// What a recording of system calls keeps beside its records; none where it is of something else, or that cannot be read.
    pub calls: Option<Kept>,
    /// Why something beside the streams is left out.
    pub remarks: Vec<String>,
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
        // What held it before may have put another directory there.
        if is_there(&folder, &above, &leaf) {
            return Ok((folder, lock));
        }
    }
    Err(Error::Busy { path: path.into() })
}

/// How often another directory may appear in the place of the one that was opened.
const ATTEMPTS: u32 = 5;

/// Whether a folder still has its name.
fn is_there(folder: &Folder, above: &Folder, leaf: &OsStr) -> bool {
    above.folder(leaf).is_ok_and(|named| named.is(folder))
}

/// Whether a trace of Kestrel's lies in a folder: its metadata says so, whatever else has such a file.
fn is_trace(folder: &Folder) -> bool {
    let mut head = Vec::new();
    let read = folder
        .read(METADATA)
        .and_then(|file| file.take(LONGEST).read_to_end(&mut head));
    read.is_ok() && metadata::is_own(&head)
}

/// Whether all that lies in a folder is metadata that had no name yet when its writer was killed: there is no trace.
fn is_begun(folder: &Folder) -> io::Result<bool> {
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

/// Where a trace that shall be at `path` is written until it is whole.
pub fn beside_of(path: &Path) -> PathBuf {
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

fn is_free_folder(folder: &Folder) -> io::Result<bool> {
    Ok(folder.entries()?.is_empty() || is_trace(folder) || is_begun(folder)?)
}

/// Moves a trace that lies at `path` aside, to the same name with `.old` behind it, where it takes the place of an older one; without a trace there nothing happens.
///
/// # Errors
/// [`Error::Busy`] where another process writes it; [`Error::InTheWay`] and [`Error::Occupied`] where something of others lies in it or in the way.
pub fn set_aside(path: &Path) -> Result<()> {
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

/// Refuses a trace's directory in which something else lies.
fn check_own(folder: &Folder, path: &Path) -> Result<()> {
    match foreign(folder).map_err(Error::io("read directory", path))? {
        Some(foreign) => Err(Error::InTheWay {
            path: path.join(foreign),
        }),
        None => Ok(()),
    }
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
            let aside = OsString::from(aside(&leaf.to_string_lossy()));
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

/// What lies in a trace's directory and is not the trace's.
fn foreign(folder: &Folder) -> io::Result<Option<PathBuf>> {
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

/// Removes a trace and its directory; nothing in a directory of another user's.
pub fn discard(path: &Path) -> io::Result<()> {
    let (above, leaf) = Folder::above(path, false)?;
    let folder = above.folder(&leaf)?;
    folder.check()?;
    clear(&folder)?;
    above.remove_folder(leaf)
}

/// Opens a trace directory.
pub fn open(path: &Path) -> Result<Trace> {
    let none = || Error::NoMetadata { path: path.into() };
    let failed = |source| Error::Open {
        path: path.into(),
        source,
    };
    let folder = match Folder::followed(path) {
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Err(none()),
        folder => folder.map_err(failed)?,
    };
    let text = match read(&folder, METADATA) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(none()),
        read => read.map_err(failed)?,
    };
    let info = metadata::parse(&text)?;
    let mut streams = Vec::new();
    let mut packets = 0;
    for name in stream_names(&folder).map_err(Error::io("read directory", path))? {
        let mut file = folder.read(&name).map_err(Error::io("open", path.join(&name)))?;
        if let Some(stream) = name.strip_suffix(SUFFIX) {
            packets += count_packets(&mut file).map_err(Error::io("read", path.join(&name)))?;
            streams.push((stream.to_owned(), StreamIn::packed(file)));
            continue;
        }
        let bytes = file
            .metadata()
            .map_err(Error::io("read the size of", path.join(&name)))?;
        packets += bytes.len().div_ceil(u64::from(PAGE));
        streams.push((name, StreamIn::Plain(file)));
    }
    let inner = match folder.folder(SIDE) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        inner => Some(inner.map_err(Error::io("read", path.join(SIDE)))?),
    };
    let side = |name: &str| match inner.as_ref().map(|inner| read(inner, name)) {
        None => Ok(None),
        Some(Err(e)) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Some(read) => read
            .map(Some)
            .map_err(Error::io("read", path.join(SIDE).join(name))),
    };
    let mut remarks = Vec::new();
    let maps = side(KeptMaps::FILE).and_then(|text| text.map(|text| KeptMaps::parse(&text)).transpose());
    // The records are worth reading without the maps.
    let maps = maps.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let user =
        side(UserSymbols::FILE).and_then(|text| text.map(|text| UserSymbols::parse(&text)).transpose());
    let user = user.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let unwound = side(Unwound::FILE).and_then(|text| text.map(|text| Unwound::parse(&text)).transpose());
    let unwound = unwound.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let tasks = side(Tasks::FILE).and_then(|text| text.map(|text| Tasks::parse(&text)).transpose());
    let tasks = tasks.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let calls = side(Kept::FILE).and_then(|text| text.map(|text| Kept::parse(&text)).transpose());
    let calls = calls.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let reader = Reader::new(info, streams);
    Ok(Trace {
        calls,
        maps: maps.unwrap_or_default(),
        tasks: tasks.unwrap_or_default(),
        remarks,
        reader: match unwound {
            Some(unwound) => reader.with_unwound(unwound),
            None => reader,
        },
        packets,
        summary: side(Summary::FILE)?
            .map(|text| Summary::parse(&text))
            .transpose()?,
        symbols: side(Symbols::FILE)?
            .map(|text| Symbols::parse(&text))
            .transpose()?
            .unwrap_or_default()
            .with_user(user.unwrap_or_default()),
        processes: side(Processes::FILE)?
            .map(|text| Processes::parse(&text))
            .transpose()?
            .unwrap_or_default(),
    })
}

/// Files beside the streams are read whole: longer ones are something else.
const LONGEST: u64 = 1 << 30;

/// All of an ordinary file that lies in a trace. What else has its name, as a device or a pipe, may have no end.
fn read(folder: &Folder, name: &str) -> io::Result<String> {
    let file = folder.read(name)?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!(
            "it is longer than {} MiB",
            LONGEST >> 20
        )));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The visible files beside the metadata, in order of name and number.
fn stream_names(folder: &Folder) -> io::Result<Vec<String>> {
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
fn clear(folder: &Folder) -> io::Result<()> {
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
    // What is beside was left by a recorder that was killed while it wrote.
    ignore_missing(folder.remove_file(beside(METADATA)))?;
    ignore_missing(folder.remove_file(METADATA))
}

/// The name of the file that becomes `leaf`.
fn beside(leaf: &str) -> String {
    format!(".{leaf}.new")
}

/// The name that a file at `leaf` gets while another takes its place.
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
    let name = name.strip_suffix(SUFFIX).unwrap_or(name);
    let number = name.rsplit_once('_').map(|(_, cpu)| cpu);
    number.is_some_and(|cpu| !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit()))
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

/// The directory of a trace that is there, which others could not have exchanged.
fn ours(path: &Path) -> Result<Folder> {
    let failed = || Error::io("write to", path);
    let folder = Folder::find(path).map_err(failed())?;
    let folder = folder.ok_or(io::ErrorKind::NotFound.into()).map_err(failed())?;
    folder.check().map_err(failed())?;
    Ok(folder)
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
    let folder = ours(path)?;
    let mut tails = Vec::new();
    for name in stream_names(&folder).map_err(Error::io("read directory", path))? {
        tails.extend(mend_stream(&folder, &name).map_err(Error::io("mend", path.join(&name)))?);
    }
    Ok(tails)
}

fn mend_stream(folder: &Folder, name: &str) -> io::Result<Option<Tail>> {
    use std::os::unix::fs::FileExt;
    let file = folder.write(name)?;
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
    let folder = ours(path)?;
    let mut names = stream_names(&folder).map_err(Error::io("read directory", path))?;
    names.push(METADATA.to_owned());
    for name in names {
        let synced = folder.read(&name).and_then(|file| file.sync_all());
        synced.map_err(Error::io("write to the disk", path.join(name)))?;
    }
    Ok(())
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

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Place for Directory {
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
/// What the system says; then the file is as it was, and nothing half written is left.
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
