//! Rewriting of traces: copies records of a trace into a new one, to keep a part of it or to change how it is stored.

use super::directory::{self, Directory};
use super::packet::{Page, close};
use super::read::Reader;
use super::write::{Writer, Written};
use crate::aggregate::KeptMaps;
use crate::calls::Kept;
use crate::error::{Error, Result};
use crate::event::EventId;
use crate::info::TraceInfo;
use crate::packet::{HEADER, MAGIC, PAGE, offset, ring_of};
use crate::process::Processes;
use crate::record::Record;
use crate::stack_pieces::{PIECE, pieces_of};
use crate::summary::{EventCount, Summary};
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;
use std::collections::BTreeMap;
use std::path::Path;

/// Writer of a new trace from records of another one.
#[derive(Debug)]
pub struct Rewriter {
    writer: Writer<Directory>,
    streams: BTreeMap<(u32, u32), Stream>,
    /// Records by event number and CPU.
    counts: BTreeMap<(u16, u32), u64>,
    span: Option<(u64, u64)>,
}

/// Data of a new trace beside its records.
#[derive(Clone, Debug, Default)]
pub struct SideData {
    /// The old recorder's counts. Records are counted anew for the new trace.
    pub summary: Option<Summary>,
    /// Names of addresses.
    pub symbols: Symbols,
    /// Names of threads.
    pub processes: Processes,
    /// Which processes threads belong to.
    pub tasks: Tasks,
    /// Frames found in copies of stacks.
    pub unwound: Unwound,
    /// Notes of recordings of system calls.
    pub calls: Option<Kept>,
}

/// The current page of a stream.
#[derive(Debug)]
struct Stream {
    page: Box<Page>,
    /// The CPU of its records: a thread's ring goes from one to another, and each page is of one.
    cpu: u32,
    /// Where the next record goes; 0 where no page was begun.
    at: usize,
    last_ns: u64,
    events: u32,
    sequence: u64,
    /// Losses of the old stream when its first record came, and since then.
    before: u64,
    lost: u64,
    /// Number of those that the remaining pages report.
    reported: u64,
}

impl Rewriter {
    /// Begins a trace with the description of `reader`'s; with a level, its streams are compressed. `path` must not exist, or be an empty directory.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn create<R>(path: &Path, reader: &Reader<R>, level: Option<u8>) -> Result<Self>
    where
        R: super::read::Source,
    {
        Self::create_of(path, reader.info().clone(), level)
    }

    /// Begins a trace with this description, as [`Rewriter::create`] does.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn create_of(path: &Path, info: TraceInfo, level: Option<u8>) -> Result<Self> {
        Ok(Self {
            writer: directory::create_packed(path, info, true, level)?,
            streams: BTreeMap::new(),
            counts: BTreeMap::new(),
            span: None,
        })
    }

    /// Writes a record of a buffer; `lost` are events that its stream had lost before it.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn record(&mut self, buffer: u32, record: &Record<'_>, lost: u64) -> Result<()> {
        let place = Placed {
            buffer,
            event: record.event.id,
            time_ns: record.time_ns,
            lost_before: lost,
        };
        self.record_as(place, record, lost)
    }

    /// Writes a record as one of another buffer, number and time.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn record_as(&mut self, place: Placed, record: &Record<'_>, lost: u64) -> Result<()> {
        let key = ring_of(place.buffer, record.cpu);
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            page: Box::new([0; PAGE as usize]),
            cpu: record.cpu,
            at: 0,
            last_ns: 0,
            events: 0,
            sequence: 0,
            before: place.lost_before,
            lost: 0,
            reported: 0,
        });
        stream.lost = lost.saturating_sub(stream.before);
        if stream.cpu != record.cpu {
            leave(&mut self.writer, key, stream)?;
            stream.cpu = record.cpu;
        }
        let time_ns = place.time_ns;
        for piece in pieces_of(record) {
            push(&mut self.writer, key, stream, &piece, (PIECE, time_ns), 0)?;
        }
        push(
            &mut self.writer,
            key,
            stream,
            record.bytes,
            (place.event, time_ns),
            1,
        )?;
        *self.counts.entry((place.event.0, record.cpu)).or_default() += 1;
        let (first, _) = self.span.unwrap_or((time_ns, 0));
        self.span = Some((first, time_ns));
        Ok(())
    }

    /// Ends the trace, and writes its counts and other data.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish(self, beside: SideData, note: String) -> Result<Written> {
        let mut summary = beside.summary.unwrap_or_default();
        let lost: u64 = summary.lost();
        summary.events = self.recorded();
        summary.duration_ns = self.span.map_or(0, |(first, last)| last.saturating_sub(first));
        summary.frozen = None;
        summary.notes.push(note);
        if lost > 0 {
            summary
                .notes
                .push(format!("that recording had lost {lost} events in all"));
        }
        let beside = SideData {
            summary: Some(summary),
            ..beside
        };
        self.end(&beside, None)
    }

    /// Number of records written, by event and CPU.
    pub(super) fn recorded(&self) -> Vec<EventCount> {
        let info = self.writer.info();
        let mut sums: BTreeMap<(&str, u32), u64> = BTreeMap::new();
        for (&(id, cpu), &recorded) in &self.counts {
            if let Some(event) = info.events.iter().find(|event| event.id.0 == id) {
                *sums.entry((&event.name, cpu)).or_default() += recorded;
            }
        }
        let count = |((event, cpu), recorded): ((&str, u32), u64)| EventCount {
            event: event.to_owned(),
            cpu,
            recorded,
            ..EventCount::default()
        };
        sums.into_iter().map(count).collect()
    }

    /// Ends the trace, and writes its other data as they are.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn end(mut self, beside: &SideData, maps: Option<&KeptMaps>) -> Result<Written> {
        let end_ns = self.span.map_or(0, |(_, last)| last);
        for (key, stream) in &mut self.streams {
            // Losses that a last page reports may have happened behind its last record.
            if stream.lost > stream.reported {
                stream.last_ns = stream.last_ns.max(end_ns);
            }
            leave(&mut self.writer, *key, stream)?;
        }
        let summary = beside.summary.clone().unwrap_or_default();
        if let Some(calls) = &beside.calls {
            self.writer.keep_calls(calls)?;
        }
        if !beside.unwound.is_empty() {
            self.writer.keep_unwound(&beside.unwound)?;
        }
        if let Some(maps) = maps {
            self.writer.keep_maps(maps)?;
        }
        self.writer.keep_tasks(&beside.tasks)?;
        let folder = self.writer.folder().path().to_owned();
        let finished = self.writer.finish(&summary, &beside.symbols, &beside.processes);
        finished.map_err(|error| of_no_kept_file(&folder, error))
    }
}

/// Target of a record in the new trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) buffer: u32,
    pub(super) event: EventId,
    pub(super) time_ns: u64,
    /// Losses before it that are not reported, where it is the first record of its stream.
    pub(super) lost_before: u64,
}

/// The longest time between two records of a page: the times in their headers have 48 bits.
const LONGEST_GAP: u64 = 1 << 47;

/// Puts a record into the current page, or the next one where it has no room; `events` is 0 for a record that is no event.
fn push(
    writer: &mut Writer<Directory>,
    key: (u32, u32),
    stream: &mut Stream,
    bytes: &[u8],
    (event, time_ns): (EventId, u64),
    events: u32,
) -> Result<()> {
    let gap = time_ns.saturating_sub(stream.last_ns);
    if stream.at + bytes.len() > PAGE as usize || stream.at > 0 && gap >= LONGEST_GAP {
        leave(writer, key, stream)?;
    }
    if stream.at == 0 {
        begin(
            &mut stream.page,
            writer.info().uuid.0,
            (key.0, stream.cpu),
            time_ns,
        );
        stream.at = HEADER as usize;
    }
    // The record comes from a page, so it fits into one.
    if let Some(room) = stream.page.get_mut(stream.at..stream.at + bytes.len()) {
        room.copy_from_slice(bytes);
        let header = u64::from(event.0) | time_ns << 16;
        room[..8].copy_from_slice(&header.to_le_bytes());
        stream.at += bytes.len();
        stream.events += events;
        stream.last_ns = time_ns;
    }
    Ok(())
}

/// Writes a packet's header, as far as it is known at the first record.
fn begin(page: &mut Page, uuid: [u8; 16], (buffer, cpu): (u32, u32), begin_ns: u64) {
    page.fill(0);
    let mut put = |at: u32, bytes: &[u8]| page[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    put(offset::MAGIC, &MAGIC.to_le_bytes());
    put(offset::UUID, &uuid);
    put(offset::TIMESTAMP_BEGIN, &begin_ns.to_le_bytes());
    put(offset::PACKET_SIZE, &(u64::from(PAGE) * 8).to_le_bytes());
    put(offset::CPU, &cpu.to_le_bytes());
    put(offset::BUFFER, &buffer.to_le_bytes());
}

/// An error with the whole path of its file, and without the counts of packets that the file kept: a trace that is not whole is removed.
fn of_no_kept_file(folder: &Path, error: Error) -> Error {
    match error {
        Error::Append { stream, source, .. } => Error::io("write", folder.join(stream))(source),
        other => other,
    }
}

/// Completes the current page of a stream, if there is one, and appends it to the file.
fn leave(writer: &mut Writer<Directory>, (buffer, cpu): (u32, u32), stream: &mut Stream) -> Result<()> {
    if stream.at == 0 {
        return Ok(());
    }
    for (at, value) in [
        (offset::SEQUENCE, stream.sequence),
        (offset::DISCARDED, stream.lost),
    ] {
        stream.page[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }
    close(&mut stream.page, stream.at as u32, stream.last_ns, stream.events);
    let appended = writer.append(buffer, cpu, stream.page.as_slice());
    appended.map_err(|error| of_no_kept_file(writer.folder().path(), error))?;
    (stream.at, stream.events) = (0, 0);
    stream.sequence += 1;
    stream.reported = stream.lost;
    Ok(())
}
