//! Writes a trace: runs of whole pages appended to one stream per buffer and CPU, metadata, side data; the files themselves are a `Folder`'s.

use super::{METADATA, SIDE, metadata};
use crate::aggregate::KeptMaps;
use crate::calls::Kept;
use crate::error::{Error, Result};
use crate::event::EventClass;
use crate::info::TraceInfo;
use crate::names::KeptNames;
use crate::packet::PAGE;
use crate::process::{Changes, Processes};
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;
use crate::user_symbol::UserSymbols;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Folder that receives a trace's files.
pub trait Folder {
    /// A file of the folder, to which a stream is written.
    type File: StreamFile;
    /// A new, empty file.
    fn create(&mut self, name: &str) -> Result<Self::File>;
    /// Gives a file new contents at one blow; a folder in its name is created.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> Result<()>;
}

/// A file that can be cut back to whole packets.
pub trait StreamFile: Write {
    /// Cuts the file to `bytes`; the next write appends there.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Bytes in the file when so many were written to it.
    fn stored(&self, bytes: u64) -> u64 {
        bytes
    }

    /// Bytes written and not in the file yet; flushing brings it there.
    fn waiting(&self) -> &[u8] {
        &[]
    }
}

/// Writes one trace.
///
/// The directory is a readable trace from the first moment: metadata is there before the first packet, and a failed write
/// leaves whole packets only.
#[derive(Debug)]
pub struct Writer<F: Folder> {
    folder: F,
    info: TraceInfo,
    streams: BTreeMap<(u32, u32), Stream<F::File>>,
}

#[derive(Debug)]
struct Stream<W> {
    name: String,
    file: W,
    bytes: u64,
}

/// Amount that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Files with packets.
    pub streams: usize,
    /// Packets in them.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl<F: Folder> Writer<F> {
    /// Begins a trace in an empty folder: writes its metadata.
    pub fn create(folder: F, info: TraceInfo) -> Result<Self> {
        for buffer in &info.buffers {
            let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if buffer.name.is_empty() || !buffer.name.chars().all(sound) {
                return Err(Error::Contradiction(format!(
                    "{:?} cannot be a buffer's name, since its streams are named after it",
                    buffer.name
                )));
            }
        }
        let mut writer = Self {
            folder,
            info,
            streams: BTreeMap::new(),
        };
        writer.write_metadata()?;
        Ok(writer)
    }

    fn write_metadata(&mut self) -> Result<()> {
        let text = metadata::text(&self.info)?;
        self.folder.replace(METADATA, text.as_bytes())
    }

    /// Description of the trace.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// The folder in which the trace is written.
    pub fn folder(&self) -> &F {
        &self.folder
    }

    /// Adds event classes; the metadata is written anew. If it cannot be, nothing was added.
    pub fn add_events(&mut self, events: impl IntoIterator<Item = EventClass>) -> Result<()> {
        let known = self.info.events.len();
        self.info.events.extend(events);
        let written = self.write_metadata();
        if written.is_err() {
            self.info.events.truncate(known);
        }
        written
    }

    /// Packets in the stream of that buffer and CPU so far.
    pub fn packets(&self, buffer: u32, cpu: u32) -> u64 {
        let stream = self.streams.get(&(buffer, cpu));
        stream.map_or(0, |stream| stream.bytes / u64::from(PAGE))
    }

    /// Appends whole packets, in order, to the stream of that buffer and CPU, with as few writes as the system allows.
    ///
    /// `pages` is a multiple of the page size long and holds sealed packets (see `packet::seal`). If the disk is full, the file is cut
    /// back to whole packets and the error says how many stayed.
    pub fn append(&mut self, buffer: u32, cpu: u32, pages: &[u8]) -> Result<()> {
        self.append_with(buffer, cpu, pages.len(), &mut |file, done| {
            file.write(&pages[done..])
        })
    }

    /// Appends packets that lie elsewhere: `write` is called with the bytes written so far until all `bytes` are, and gives how many
    /// more the file took.
    pub fn append_with(
        &mut self,
        buffer: u32,
        cpu: u32,
        bytes: usize,
        write: &mut dyn FnMut(&mut F::File, usize) -> io::Result<usize>,
    ) -> Result<()> {
        if !bytes.is_multiple_of(PAGE as usize) {
            return Err(Error::Fraction { bytes });
        }
        if bytes == 0 {
            return Ok(());
        }
        self.stream(buffer, cpu)?.append(bytes, write)
    }

    fn stream(&mut self, buffer: u32, cpu: u32) -> Result<&mut Stream<F::File>> {
        use std::collections::btree_map::Entry;
        match self.streams.entry((buffer, cpu)) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let Some(info) = self.info.ring(buffer) else {
                    return Err(Error::UnknownBuffer(buffer));
                };
                let name = info.stream(cpu);
                let file = self.folder.create(&name)?;
                Ok(entry.insert(Stream { name, file, bytes: 0 }))
            }
        }
    }

    /// Amount written so far.
    pub fn written(&self) -> Written {
        let mut written = Written {
            streams: self.streams.len(),
            ..Written::default()
        };
        for stream in self.streams.values() {
            let waiting = stream.file.waiting().len() as u64;
            written.packets += (stream.bytes - waiting) / u64::from(PAGE);
            written.bytes += stream.file.stored(stream.bytes);
        }
        written
    }

    /// Writes the packets that wait for others, to be written with them.
    ///
    /// # Errors
    /// When the disk is full or the like: [`Writer::waiting`] has those that could not be written.
    pub fn settle(&mut self) -> Result<()> {
        for stream in self.streams.values_mut() {
            let packets = stream.file.waiting().len() / PAGE as usize;
            let settled = stream.file.flush();
            settled.map_err(|source| Error::Append {
                stream: stream.name.clone(),
                kept: stream.bytes / u64::from(PAGE) - packets as u64,
                lost: packets as u64,
                source,
            })?;
        }
        Ok(())
    }

    /// Packets that were appended and wait for others: by buffer and CPU.
    pub fn waiting(&self) -> impl Iterator<Item = ((u32, u32), &[u8])> {
        self.streams
            .iter()
            .map(|(of, stream)| (*of, stream.file.waiting()))
    }

    /// Writes what the handlers' maps hold, beside the streams.
    ///
    /// # Errors
    /// When the file cannot be written: the trace is one without it.
    pub fn keep_maps(&mut self, maps: &KeptMaps) -> Result<()> {
        let name = format!("{SIDE}/{}", KeptMaps::FILE);
        self.folder.replace(&name, maps.to_text().as_bytes())
    }

    /// Writes the frames that were found in copies of stacks, beside the streams.
    ///
    /// # Errors
    /// When the file cannot be written: of those stacks the trace has the innermost frames only.
    pub fn keep_unwound(&mut self, unwound: &Unwound) -> Result<()> {
        unwound_file(&mut self.folder, unwound)
    }

    /// Writes which processes threads belong to and which of them the recording is about, beside the streams.
    ///
    /// # Errors
    /// When the file cannot be written: events about threads are found by these alone.
    pub fn keep_tasks(&mut self, tasks: &Tasks) -> Result<()> {
        tasks_file(&mut self.folder, tasks)
    }

    /// Writes what a recording of system calls keeps, beside the streams.
    ///
    /// # Errors
    /// When the file cannot be written: calls are shown by the names of this machine then, without their arguments.
    pub fn keep_calls(&mut self, calls: &Kept) -> Result<()> {
        let name = format!("{SIDE}/{}", Kept::FILE);
        self.folder.replace(&name, calls.to_text().as_bytes())
    }

    /// Writes what CTF cannot hold, beside the streams.
    pub fn finish(mut self, summary: &Summary, symbols: &Symbols, processes: &Processes) -> Result<Written> {
        self.settle()?;
        side_files(&mut self.folder, summary, symbols, processes)?;
        Ok(self.written())
    }

    /// Finishes a trace whose writing failed before: what there is room for, and first what was counted.
    pub fn finish_short(mut self, summary: &Summary, symbols: &Symbols, processes: &Processes) -> Written {
        for (name, bytes) in side_file_contents(summary, symbols, processes) {
            // A trace without them is read all the same, and without its summary it is known that nothing was counted.
            _ = self.folder.replace(&format!("{SIDE}/{name}"), &bytes);
        }
        self.written()
    }
}

/// Writes the frames that were found in copies of stacks.
pub(super) fn unwound_file<F: Folder>(folder: &mut F, unwound: &Unwound) -> Result<()> {
    let name = format!("{SIDE}/{}", Unwound::FILE);
    folder.replace(&name, unwound.to_text().as_bytes())
}

pub(super) fn tasks_file<F: Folder>(folder: &mut F, tasks: &Tasks) -> Result<()> {
    let name = format!("{SIDE}/{}", Tasks::FILE);
    folder.replace(&name, tasks.to_text().as_bytes())
}

/// Writes what CTF cannot hold.
pub(super) fn side_files<F: Folder>(
    folder: &mut F,
    summary: &Summary,
    symbols: &Symbols,
    processes: &Processes,
) -> Result<()> {
    for (name, bytes) in side_file_contents(summary, symbols, processes) {
        folder.replace(&format!("{SIDE}/{name}"), &bytes)?;
    }
    Ok(())
}

/// The files beside the streams, the most wanted first.
fn side_file_contents(
    summary: &Summary,
    symbols: &Symbols,
    processes: &Processes,
) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![
        (Summary::FILE, summary.to_text().into_bytes()),
        (Processes::FILE, processes.to_lines()),
        (Symbols::FILE, symbols.to_text().into_bytes()),
    ];
    if !processes.changes().is_empty() {
        files.push((Changes::FILE, processes.changes().to_lines()));
    }
    if !symbols.kept_names().is_empty() {
        files.push((KeptNames::FILE, symbols.kept_names().to_text().into_bytes()));
    }
    if !symbols.user().is_empty() {
        files.push((UserSymbols::FILE, symbols.user().to_text().into_bytes()));
    }
    files
}

impl<W: StreamFile> Stream<W> {
    fn append(
        &mut self,
        wanted: usize,
        write: &mut dyn FnMut(&mut W, usize) -> io::Result<usize>,
    ) -> Result<()> {
        let mut done = 0;
        while done < wanted {
            match write(&mut self.file, done) {
                Ok(0) => return self.cut(wanted, done, io::ErrorKind::WriteZero.into()),
                Ok(bytes) => done += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return self.cut(wanted, done, e),
            }
        }
        self.bytes += done as u64;
        Ok(())
    }

    /// After `done` of `wanted` bytes: keeps whole packets.
    fn cut(&mut self, wanted: usize, done: usize, source: io::Error) -> Result<()> {
        let page = PAGE as usize;
        let whole = done / page * page;
        self.bytes += whole as u64;
        // Should this fail as well, readers will find the cut packet and say so.
        _ = self.file.truncate(self.bytes);
        Err(Error::Append {
            stream: self.name.clone(),
            kept: (self.bytes - self.file.waiting().len() as u64) / u64::from(PAGE),
            lost: ((wanted - whole + self.file.waiting().len()) / page) as u64,
            source,
        })
    }
}
