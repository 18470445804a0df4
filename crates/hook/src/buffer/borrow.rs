//! Pages of a stream ring lent to a writer of files without a copy: freed once they are in the file, each record given once.
//!
//! Whole pages are lent in runs. The records of the page in use can be had too, as a [`Part`]: then the ring's acknowledged position says which
//! of the page's records were given, and what is given of the page later is the rest of it. Both positions are in the ring itself, so that
//! the next reader goes on where the last one stopped.

use super::cursor::{Begin, Policy, Unread};
use super::layout::Mode;
use super::memory::Memory;
use super::reader::{PAGE64, Ring};
use kestrel_catalog::{Result, into_io};
use kestrel_kernel::mmap::Mapping;
use kestrel_trace::ctf::packed::StreamOut;
use kestrel_trace::ctf::packet::{self as ctf, Page};
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::{HEADER, PAGE, offset};
use std::io::{self, Write as _};
use std::ops::{ControlFlow, Range};

/// Unread records of one page, as a packet of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The packet's bytes.
    pub bytes: Box<Page>,
    /// Position after its last record: to be acknowledged once it is on file.
    pub end: u64,
    /// Records in it.
    pub records: u32,
}

/// Records in lent pages, all of which are whole.
pub fn records_in<M: Memory>(memory: &M, pages: Range<usize>) -> u64 {
    let pages = pages.step_by(PAGE as usize);
    let events = pages.map(|page| memory.load(page + offset::COMMITTED as usize) >> 32);
    events.sum()
}

/// Writes lent pages to a stream: straight from memory, where it keeps them as they are. Gives how many bytes it took.
///
/// # Errors
/// Errors of the system.
pub fn write_lent(memory: &Mapping, pages: Range<usize>, stream: &mut StreamOut) -> io::Result<usize> {
    if let Some(file) = stream.plain() {
        return memory.write_to(pages, file).map_err(into_io);
    }
    let mut copy = vec![0; pages.len()];
    memory.copy_out(pages.start, &mut copy).map_err(into_io)?;
    stream.write(&copy)
}

impl<M: Memory> Ring<M> {
    /// Shows `take` the whole pages of a stream ring's CPU not handed out before, where they lie, and frees each run of them for writers
    /// once it was taken. Pages that become whole meanwhile are left for the next time. Returns their number; none in overwrite
    /// mode, where writers do not wait for readers.
    ///
    /// # Errors
    /// Errors of `take`; pages that it did not take are kept.
    pub fn borrow_pages(
        &self,
        cpu: u32,
        take: &mut dyn FnMut(&M, Range<usize>) -> Result<()>,
    ) -> Result<usize> {
        let end = self.in_use(cpu);
        let mut pages = 0;
        loop {
            match self.borrow_run(cpu, end, take)? {
                0 => return Ok(pages),
                more => pages += more,
            }
        }
    }

    /// Lends one run of pages, all of them before `end`.
    ///
    /// # Errors
    /// Errors of `take`; pages that it did not take are kept.
    pub fn borrow_run(
        &self,
        cpu: u32,
        end: u64,
        take: &mut dyn FnMut(&M, Range<usize>) -> Result<()>,
    ) -> Result<usize> {
        if self.geometry().mode == Mode::Overwrite {
            return Ok(0);
        }
        let from = self.freed(cpu);
        let Some(last) = self.run(cpu, from, end) else {
            return Ok(0);
        };
        let place = self.page_at(cpu, from);
        let end = last + PAGE64;
        take(&self.memory, place..place + (end - from) as usize)?;
        self.free(cpu, end);
        Ok(((end - from) / PAGE64) as usize)
    }

    /// The last of the run of whole pages from the one at `from` on that lie before `end` and side by side in memory; not more of them than
    /// an eighth of the ring, so that writers get room again soon.
    fn run(&self, cpu: u32, from: u64, end: u64) -> Option<u64> {
        let data = u64::from(self.geometry().data());
        let lap = (from / data + 1) * data;
        let most = from + (data / 8).max(PAGE64);
        let pages = (from..end.min(lap).min(most)).step_by(PAGE as usize);
        pages.take_while(|page| self.is_whole(cpu, *page)).last()
    }

    /// Position up to which the oldest page not freed was read: its header, or further.
    pub fn consumed(&self, cpu: u32) -> u64 {
        let page = self.freed(cpu);
        self.acknowledged(cpu)
            .clamp(page + u64::from(HEADER), page + PAGE64)
    }

    /// Unread records of the oldest page not freed, if it is whole and partly read: they come before whole pages are lent.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn unread_tail(&self, cpu: u32, end: u64, events: &EventTable) -> Result<Option<Part>> {
        let page = self.freed(cpu);
        if self.consumed(cpu) == page + u64::from(HEADER) || page >= end {
            return Ok(None);
        }
        let part = self.unread_part(cpu, 0, events)?;
        Ok(part.filter(|part| part.end > page + PAGE64))
    }

    /// Unread records of the page in use, ended at `now`; `None` if there are none, if pages before it are not freed, or if a writer is in the middle of
    /// a record.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn unread_head(&self, cpu: u32, now: u64, events: &EventTable) -> Result<Option<Part>> {
        if self.geometry().mode == Mode::Overwrite || self.in_use(cpu) != self.freed(cpu) {
            return Ok(None);
        }
        let part = self.unread_part(cpu, now, events)?;
        Ok(part.filter(|part| part.end <= self.freed(cpu) + PAGE64))
    }

    /// Appends all unread records of a ring that no program writes any more: see [`Policy::Rest`].
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn drain_abandoned(
        &self,
        cpu: u32,
        now: u64,
        events: &EventTable,
        out: &mut Vec<u8>,
    ) -> Result<Unread> {
        let mut cursor = self.cursor(cpu, Begin::At(self.consumed(cpu)));
        self.follow(&mut cursor, Policy::Rest(events), now, &mut |view| {
            let none_left = view.from > HEADER && ctf::cut_front(view.bytes, view.from, events) == Ok(0);
            if !none_left {
                out.extend_from_slice(view.bytes);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(cursor.unread())
    }

    /// Unread part of the oldest page not freed, if that is whole or in use with no writer in the middle of a record.
    fn unread_part(&self, cpu: u32, now: u64, events: &EventTable) -> Result<Option<Part>> {
        let mut cursor = self.cursor(cpu, Begin::At(self.consumed(cpu)));
        let mut part = None;
        self.follow(&mut cursor, Policy::Tail, now, &mut |view| {
            let mut bytes = Box::new(*view.bytes);
            let records = ctf::cut_front(&mut bytes, view.from, events).unwrap_or(0);
            part = Some((bytes, records));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(part.map(|(bytes, records)| Part {
            bytes,
            end: cursor.position(),
            records,
        }))
    }
}
