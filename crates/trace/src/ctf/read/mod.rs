//! Reads a trace: streams merged by time, packet by packet in constant memory, losses counted, cuts survived and named.

mod stream;

use crate::decode::EventTable;
use crate::error::{Error, Result};
use crate::info::{BufferInfo, TraceInfo};
use crate::packet::HEADER;
use crate::record::Record;
use crate::stack_pieces::StackPieces;
use crate::summary::{Absent, Summary};
use crate::unwound::Unwound;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stream::Stream;

pub use stream::Source;

/// Losses of a trace, as far as its packets tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Events that a full buffer lost.
    pub lost: u64,
    /// Packets missing between others: overwritten before they were read.
    pub packets_absent: u64,
    /// Packets that could not be read to their end.
    pub packets_damaged: u64,
    /// The first error of each stream that has one.
    pub notes: Vec<String>,
}

impl Losses {
    /// Whether nothing is missing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The records of a trace in order of time; of equal times, that of the earlier stream comes first.
#[derive(Debug)]
pub struct Reader<R> {
    info: TraceInfo,
    events: EventTable,
    streams: Vec<Stream<R>>,
    /// The next times of all streams but the current.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// The first of these; the greatest there is where there are none.
    limit: (u64, usize),
    /// The stream of the record handed out last.
    current: Option<usize>,
    started: bool,
    /// Whether streams were left out.
    partial: bool,
    /// The times that are asked for: packets without them are not decoded.
    within: RangeInclusive<u64>,
    watch: Watch,
    /// Set from elsewhere where reading shall end.
    stop: Option<Arc<AtomicBool>>,
    pieces: StackPieces,
    /// Up to when records may be missing, of gaps met so far.
    gap_ns: u64,
}

/// Called with the number of packets read.
#[derive(Default)]
struct Watch(Option<Box<dyn FnMut(u64)>>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Watch" } else { "None" })
    }
}

/// The limit where no other stream has records.
const NONE: (u64, usize) = (u64::MAX, usize::MAX);

/// Packets of a stream between two calls of the progress function.
const TELL: u64 = 256;

impl<R: Source> Reader<R> {
    /// Reads `streams`, each with its name for messages.
    pub fn new(info: TraceInfo, streams: Vec<(String, R)>) -> Self {
        Self {
            events: EventTable::new(info.events.iter().cloned()),
            streams: streams
                .into_iter()
                .map(|(name, input)| Stream::new(name, input))
                .collect(),
            order: BinaryHeap::new(),
            limit: NONE,
            current: None,
            started: false,
            partial: false,
            within: 0..=u64::MAX,
            watch: Watch::default(),
            stop: None,
            pieces: StackPieces::default(),
            gap_ns: 0,
            info,
        }
    }

    /// Calls `progress` from now on with the number of packets read so far, every few hundred packets.
    pub fn watch(&mut self, progress: Box<dyn FnMut(u64)>) {
        self.watch = Watch(Some(progress));
    }

    /// Reading fails with [`Error::Interrupted`] as soon as the flag is set.
    pub fn stop_when(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// Gives the records the frames that were found in copies of their stacks.
    pub(super) fn with_unwound(mut self, unwound: Unwound) -> Self {
        self.events.set_unwound(unwound);
        self
    }

    /// Description of the trace.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// The next record in time.
    #[inline(always)]
    #[allow(
        clippy::should_implement_trait,
        reason = "the record borrows the reader, which an iterator's cannot"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        Ok(self.next_in()?.map(|(_, record)| record))
    }

    /// The next record in time, after the number of the buffer that it was in.
    ///
    /// # Errors
    /// As [`Reader::next`].
    #[inline(always)]
    pub fn next_in(&mut self) -> Result<Option<(u32, Record<'_>)>> {
        Ok(match self.has_next()? {
            true => self.at_hand(),
            false => None,
        })
    }

    /// The next record in time; before it is handed out `lost` is called with the events lost by CPU, where more was lost than `known`.
    ///
    /// # Errors
    /// As [`Reader::next`], and what `lost` says.
    pub(crate) fn next_noting(
        &mut self,
        known: &mut u64,
        lost: impl FnOnce(BTreeMap<u32, u64>) -> Result<()>,
    ) -> Result<Option<Record<'_>>> {
        if !self.has_next()? {
            return Ok(None);
        }
        if self.lost() != *known {
            *known = self.lost();
            lost(self.lost_by_cpu())?;
        }
        Ok(self.at_hand().map(|(_, record)| record))
    }

    /// The next record in time, and the time up to which records before it may be missing: lost, overwritten or damaged ones. What happened later, of
    /// whatever CPU, was recorded whole; 0 where nothing is missing up to the record, [`u64::MAX`] where something may be missing next to it, or anywhere behind
    /// it: behind a last packet that is damaged, or before the end of one that reports losses. Losses that only the summary reports are not seen.
    ///
    /// # Errors
    /// As [`Reader::next`].
    #[inline(always)]
    pub fn next_with_gap(&mut self) -> Result<Option<(Record<'_>, u64)>> {
        if !self.has_next()? {
            return Ok(None);
        }
        let gap_ns = self.gap_ns;
        Ok(self.at_hand().map(|(_, record)| (record, gap_ns)))
    }

    /// Goes to the next record, pieces of stacks taken on the way; false at the end.
    #[inline(always)]
    pub(super) fn has_next(&mut self) -> Result<bool> {
        loop {
            // Most records are followed by one of the same page, before those of all other streams.
            let at_hand = match self.current {
                Some(current) => match self.streams.get_mut(current) {
                    Some(stream) => stream.step(&self.events) && (stream.next.time_ns, current) < self.limit,
                    None => false,
                },
                None => false,
            };
            if !at_hand {
                self.advance()?;
            }
            let Some(current) = self.current else {
                return Ok(false);
            };
            if self.watch.0.is_some() {
                self.tell(current);
            }
            let Some(stream) = self.streams.get_mut(current) else {
                return Ok(false);
            };
            if !stream.next.is_stack_piece() {
                return Ok(true);
            }
            let bytes = stream.chunk.get(stream.at..stream.end).unwrap_or_default();
            if let Some(piece) = self.events.at(stream.next, bytes, stream.cpu) {
                self.pieces.take(&piece);
            }
        }
    }

    /// The record gone to.
    #[inline(always)]
    fn at_hand(&mut self) -> Option<(u32, Record<'_>)> {
        let stream = self.streams.get_mut(self.current?)?;
        stream.records += 1;
        let bytes = stream.chunk.get(stream.at..stream.end).unwrap_or_default();
        let record = self.events.at(stream.next, bytes, stream.cpu)?;
        let record = Record {
            rest: self.pieces.rest_of(&record),
            ..record
        };
        Some((stream.buffer, record))
    }

    /// The next record in time, after the number of its buffer, and behind it how many events its stream had lost before its packet's end.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn next_with_losses(&mut self) -> Result<Option<(u32, Record<'_>, u64)>> {
        Ok(match self.has_next()? {
            true => self.at_hand_with_losses(),
            false => None,
        })
    }

    /// The time of the record gone to.
    pub(super) fn time_at_hand(&self) -> Option<u64> {
        Some(self.streams.get(self.current?)?.next.time_ns)
    }

    /// The record gone to, as [`Reader::next_with_losses`] gives it: once.
    pub(super) fn at_hand_with_losses(&mut self) -> Option<(u32, Record<'_>, u64)> {
        let lost = self.streams.get(self.current?)?.losses.lost;
        self.at_hand().map(|(buffer, record)| (buffer, record, lost))
    }

    /// Frames that were found in copies of stacks.
    pub fn unwound(&self) -> Option<&Unwound> {
        self.events.unwound()
    }

    /// Leaves out all streams but those of this buffer. Before the first record.
    pub fn only(&mut self, buffer: &str) {
        let before = self.streams.len();
        self.streams
            .retain(|stream| BufferInfo::of_stream(&stream.name) == Some(buffer));
        self.partial |= self.streams.len() < before;
    }

    /// The time of the first record in ns; none of a trace without records. Before the first record.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn begin(&mut self) -> Result<Option<u64>> {
        if !self.started {
            self.start()?;
        }
        Ok(self.order.peek().map(|Reverse((time, _))| *time))
    }

    /// From now on packets without a record in these times are stepped over, by the times in their headers. Others come whole: what is around the
    /// times in the first and the last packet is the caller's to leave out.
    pub fn within(&mut self, times: RangeInclusive<u64>) {
        for stream in &mut self.streams {
            stream.input.within(times.clone());
        }
        self.within = times;
    }

    /// From now on only times, events, CPUs and threads of records are looked at: the fields of records that name no thread may be zeros. For who counts.
    pub fn heads_alone(&mut self) {
        self.streams
            .iter_mut()
            .for_each(|stream| stream.input.heads_alone());
    }

    /// Goes straight to the packets with records of this time or later, where streams can be sought in: for who looks at a few records. What lies before is
    /// not counted, nor what is missing there. Before the first record.
    ///
    /// # Errors
    /// When a stream cannot be read.
    pub fn skip_to(&mut self, time_ns: u64) -> Result<()> {
        for stream in &mut self.streams {
            let skipped = stream.input.skip_to(time_ns);
            skipped.map_err(Error::io("read stream", &stream.name))?;
        }
        self.partial = true;
        self.within(time_ns..=u64::MAX);
        Ok(())
    }

    /// Calls the progress function, at the first record of every so-many-th packet of a stream.
    #[cold]
    #[inline(never)]
    fn tell(&mut self, current: usize) {
        let Some(progress) = self.watch.0.as_mut() else {
            return;
        };
        let stream = &self.streams[current];
        if stream.at == stream.page + HEADER as usize && stream.packets.is_multiple_of(TELL) {
            progress(self.streams.iter().map(|stream| stream.packets).sum());
        }
    }

    /// Makes the stream of the next record the current one, where that is in another page or another stream than the last.
    #[inline(never)]
    fn advance(&mut self) -> Result<()> {
        if self
            .stop
            .as_ref()
            .is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            return Err(Error::Interrupted);
        }
        if !self.started {
            self.start()?;
        } else if let Some(current) = self.current {
            let stream = &mut self.streams[current];
            let found = stream.found || stream.advance(&self.events, &self.info, &self.within)?;
            let first = (stream.next.time_ns, current);
            if std::mem::take(&mut stream.gaps.changed) {
                self.note_gaps();
            }
            if found && first < self.limit {
                return Ok(());
            }
            if found {
                self.order.push(Reverse(first));
            }
        }
        self.take_first();
        Ok(())
    }

    /// Makes the stream with the first record the current one.
    fn take_first(&mut self) {
        self.current = self.order.pop().map(|Reverse((_, index))| index);
        self.limit = self.order.peek().map_or(NONE, |Reverse(first)| *first);
    }

    /// Puts the first records of all streams in order.
    fn start(&mut self) -> Result<()> {
        self.started = true;
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if stream.advance(&self.events, &self.info, &self.within)? {
                self.order.push(Reverse((stream.next.time_ns, index)));
            }
        }
        self.note_gaps();
        Ok(())
    }

    #[cold]
    fn note_gaps(&mut self) {
        self.gap_ns = self
            .streams
            .iter()
            .map(|stream| stream.gaps.until_ns)
            .max()
            .unwrap_or(0);
    }

    /// Packets read so far.
    pub fn packets(&self) -> u64 {
        self.streams.iter().map(|stream| stream.packets).sum()
    }

    /// Records that the recorder wrote and that were not read, after the last record: files that were cut, damaged or removed. Where streams were left out
    /// nothing is known.
    pub fn absent(&self, summary: &Summary) -> Vec<Absent> {
        if self.partial {
            return Vec::new();
        }
        let mut found: BTreeMap<u32, u64> = BTreeMap::new();
        for stream in &self.streams {
            *found.entry(stream.cpu).or_default() += stream.records;
        }
        let names: Vec<&str> = self.streams.iter().map(|stream| stream.name.as_str()).collect();
        summary.absent(&found, &names, &self.info)
    }

    /// Losses met so far, in events and packets: a number that grows.
    pub fn lost(&self) -> u64 {
        let losses = self.streams.iter().map(|stream| &stream.losses);
        losses
            .flat_map(|it| [it.lost, it.packets_absent, it.packets_damaged])
            .fold(0, u64::saturating_add)
    }

    /// Events lost that were met so far, by CPU.
    pub(crate) fn lost_by_cpu(&self) -> BTreeMap<u32, u64> {
        let mut all = BTreeMap::new();
        for stream in &self.streams {
            for (cpu, lost) in &stream.lost_on {
                let on_cpu: &mut u64 = all.entry(*cpu).or_default();
                *on_cpu = on_cpu.saturating_add(*lost);
            }
        }
        all
    }

    /// Losses in what was read so far: from the whole trace, after its last record.
    pub fn losses(&self) -> Losses {
        let mut all = Losses::default();
        for stream in &self.streams {
            all.lost = all.lost.saturating_add(stream.losses.lost);
            all.packets_absent = all.packets_absent.saturating_add(stream.losses.packets_absent);
            all.packets_damaged += stream.losses.packets_damaged;
            all.notes.extend(stream.losses.notes.iter().cloned());
        }
        all
    }
}
