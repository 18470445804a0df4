//! A trace written anew, record by record: a part of another one, or the same in other files.

use super::directory::{self, Directory};
use super::packet::{Page, close};
use super::read::Reader;
use super::write::{Writer, Written};
use crate::calls::Kept;
use crate::error::Result;
use crate::packet::{HEADER, MAGIC, PAGE, offset};
use crate::process::Processes;
use crate::record::Record;
use crate::stack_pieces::pieces_of;
use crate::summary::{EventCount, Summary};
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;
use std::collections::BTreeMap;
use std::path::Path;

/// A trace in the making.
#[derive(Debug)]
pub struct Rewriter {
    writer: Writer<Directory>,
    streams: BTreeMap<(u32, u32), Stream>,
    /// Records by event number and CPU.
    counts: BTreeMap<(u16, u32), u64>,
    span: Option<(u64, u64)>,
}

/// What a new trace has beside its records.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// What the recorder of the old one counted; of the new one its records are.
    pub summary: Option<Summary>,
    /// Names of addresses.
    pub symbols: Symbols,
    /// Names of threads.
    pub processes: Processes,
    /// Which processes threads belong to.
    pub tasks: Tasks,
    /// Frames found in copies of stacks.
    pub unwound: Unwound,
    /// What recordings of system calls keep.
    pub calls: Option<Kept>,
}

/// The page at hand of a stream.
#[derive(Debug)]
struct Stream {
    page: Box<Page>,
    /// Where the next record goes; 0 where no page was begun.
    at: usize,
    last_ns: u64,
    events: u32,
    sequence: u64,
    /// What the old stream had lost when the first record came, and since.
    before: u64,
    lost: u64,
}

impl Rewriter {
    /// Begins a trace that says of itself what `reader`'s does; with a level, its streams are packed. Nothing may be there, or an empty directory.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn create<R>(path: &Path, reader: &Reader<R>, level: Option<u8>) -> Result<Self>
    where
        R: super::read::Source,
    {
        Ok(Self {
            writer: directory::create_packed(path, reader.info().clone(), true, level)?,
            streams: BTreeMap::new(),
            counts: BTreeMap::new(),
            span: None,
        })
    }

    /// Writes a record of a buffer; `lost` are events that its stream had lost before it ([`Reader::lost_before`]).
    ///
    /// # Errors
    /// What cannot be written.
    pub fn record(&mut self, buffer: u32, record: &Record<'_>, lost: u64) -> Result<()> {
        let key = (buffer, record.cpu);
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            page: Box::new([0; PAGE as usize]),
            at: 0,
            last_ns: 0,
            events: 0,
            sequence: 0,
            before: lost,
            lost: 0,
        });
        stream.lost = lost.saturating_sub(stream.before);
        for piece in pieces_of(record) {
            push(&mut self.writer, key, stream, &piece, record.time_ns, 0)?;
        }
        push(&mut self.writer, key, stream, record.bytes, record.time_ns, 1)?;
        *self.counts.entry((record.event.id.0, record.cpu)).or_default() += 1;
        let (first, _) = self.span.unwrap_or((record.time_ns, 0));
        self.span = Some((first, record.time_ns));
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn finish(mut self, beside: Beside, note: String) -> Result<Written> {
        for (key, stream) in &mut self.streams {
            leave(&mut self.writer, *key, stream)?;
        }
        let mut summary = beside.summary.unwrap_or_default();
        let lost: u64 = summary.lost();
        let info = self.writer.info();
        let count = |(&(id, cpu), &recorded): (&(u16, u32), &u64)| {
            let event = info.events.iter().find(|event| event.id.0 == id)?;
            Some(EventCount {
                event: event.name.clone(),
                cpu,
                recorded,
                ..EventCount::default()
            })
        };
        summary.events = self.counts.iter().filter_map(count).collect();
        summary.duration_ns = self.span.map_or(0, |(first, last)| last - first);
        summary.frozen = None;
        summary.notes.push(note);
        if lost > 0 {
            summary
                .notes
                .push(format!("that recording had lost {lost} events in all"));
        }
        if let Some(calls) = &beside.calls {
            self.writer.keep_calls(calls)?;
        }
        if !beside.unwound.is_empty() {
            self.writer.keep_unwound(&beside.unwound)?;
        }
        self.writer.keep_tasks(&beside.tasks)?;
        self.writer.finish(&summary, &beside.symbols, &beside.processes)
    }
}

/// Puts a record into the page at hand, or the next one; `events` is 0 of what is none.
fn push(
    writer: &mut Writer<Directory>,
    key: (u32, u32),
    stream: &mut Stream,
    bytes: &[u8],
    time_ns: u64,
    events: u32,
) -> Result<()> {
    if stream.at + bytes.len() > PAGE as usize {
        leave(writer, key, stream)?;
    }
    if stream.at == 0 {
        begin(&mut stream.page, writer.info().uuid.0, key, time_ns);
        stream.at = HEADER as usize;
    }
    // No record is longer than a page has room for: it comes from one.
    if let Some(room) = stream.page.get_mut(stream.at..stream.at + bytes.len()) {
        room.copy_from_slice(bytes);
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

/// Ends the page at hand, if there is one, and appends it.
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
    writer.append(buffer, cpu, stream.page.as_slice())?;
    (stream.at, stream.events) = (0, 0);
    stream.sequence += 1;
    Ok(())
}
