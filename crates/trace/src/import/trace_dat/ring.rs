//! The records of a CPU out of pages of the kernel's ring buffer (`include/linux/ring_buffer.h`, `rb_event_length` in kernel/trace/ring_buffer.c).

use super::super::draft::{Draft, Events};
use super::super::input::Input;
use super::pages::Pages;
use super::{StackEvent, Table};
use crate::convert::trace_dat::{COUNTED, DELTA, EXTEND, LOST, PADDING, STAMP};
use crate::event::EventClass;
use kestrel_layout::entry::Format;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Layout of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) page: usize,
    time: usize,
    commit: usize,
    commit_size: usize,
    data: usize,
}

/// The smallest and the largest page.
const PAGES: std::ops::RangeInclusive<usize> = 256..=1 << 24;
/// Bits of the commit word that are the length of a page's records.
const LENGTH: u64 = (1 << 27) - 1;
/// Records of each CPU that are looked at for stacks.
const LOOKED_AT: usize = 1000;
/// Bits of an absolute time that a record has.
const STAMPED: u32 = 59;

impl Shape {
    /// Page layout that `header_page` describes; pages are at least so long.
    pub(super) fn of(header_page: &str, page: u32) -> Result<Self, String> {
        let not = |what: &str| format!("its form of pages (header_page) has no {what}");
        let format = Format::parse(&format!("name: page\nID: 0\n{header_page}")).map_err(|why| not(&why))?;
        let field = |name: &str| format.field(name).ok_or_else(|| not(name));
        let (time, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        if time.size != 8 || !matches!(commit.size, 4 | 8) {
            return Err("its form of pages (header_page) is of another size than known".to_owned());
        }
        let whole = (data.offset as usize).saturating_add(data.size as usize);
        let shape = Self {
            page: whole.max(page as usize),
            time: time.offset as usize,
            commit: commit.offset as usize,
            commit_size: commit.size as usize,
            data: data.offset as usize,
        };
        match PAGES.contains(&shape.page) && shape.data < shape.page {
            true => Ok(shape),
            false => Err(format!("its pages are {} bytes long", shape.page)),
        }
    }
}

/// The records of a CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    number: u32,
    pages: Pages,
    shape: Shape,
    table: Arc<Table>,
    page: Vec<u8>,
    /// Offsets of the next record and of the end of the last one.
    at: usize,
    end: usize,
    /// The entry read ahead that is not the stack of the record before it.
    pending: Option<Range<usize>>,
    /// Time of the last record, in the file's units.
    time: u64,
    /// Events lost before the next record.
    lost: u64,
    /// Of the lost events that the kernel has counted, those that no page reports.
    unreported: u64,
    ended: bool,
    previous_ns: u64,
    damage: Option<String>,
}

impl Cpu {
    pub(super) fn new(number: u32, pages: Pages, shape: Shape, table: Arc<Table>, lost: u64) -> Self {
        Self {
            number,
            pages,
            shape,
            table,
            page: Vec::new(),
            at: 0,
            end: 0,
            pending: None,
            time: 0,
            lost: 0,
            unreported: lost,
            ended: false,
            previous_ns: 0,
            damage: None,
        }
    }

    /// Whether stacks of the kernel are among the first records: `trace-cmd record -T` records them with every event.
    pub(super) fn begins_with_stacks(mut self, stack: &StackEvent) -> io::Result<bool> {
        for _ in 0..LOOKED_AT {
            let Some(entry) = self.ahead()? else { break };
            if self.number_of(&entry) == Some(stack.number) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn broken(&mut self, what: &str) {
        let number = self.number;
        self.damage.get_or_insert_with(|| format!("CPU {number}: {what}"));
    }

    /// Goes to the next page; false at the end.
    fn load(&mut self) -> io::Result<bool> {
        let Some(page) = self.pages.next()? else {
            return Ok(false);
        };
        self.page.clear();
        self.page.extend_from_slice(page);
        let shape = self.shape;
        let word = |at: usize| {
            self.page
                .get(at..)?
                .first_chunk()
                .map(|bytes| u64::from_le_bytes(*bytes))
        };
        let half = |at: usize| {
            self.page
                .get(at..)?
                .first_chunk()
                .map(|bytes| u64::from(u32::from_le_bytes(*bytes)))
        };
        let commit = match shape.commit_size {
            4 => half(shape.commit),
            _ => word(shape.commit),
        };
        let (time, commit) = (word(shape.time).unwrap_or(0), commit.unwrap_or(0));
        self.time = time;
        self.at = shape.data;
        let end = shape.data as u64 + (commit & LENGTH);
        if end > self.page.len() as u64 {
            self.broken(&format!(
                "a page says that it has {} bytes of records",
                commit & LENGTH
            ));
            self.end = self.at;
            return Ok(true);
        }
        self.end = end as usize;
        if commit & LOST != 0 {
            let count = match shape.commit_size {
                4 => half(self.end),
                _ => word(self.end),
            };
            match count.filter(|_| commit & COUNTED != 0) {
                Some(count) => {
                    self.lost = self.lost.saturating_add(count);
                    self.unreported = self.unreported.saturating_sub(count);
                }
                // The kernel's count is reported at the end.
                None if self.unreported == 0 => {
                    self.broken("events were lost, and the file does not say how many")
                }
                None => {}
            }
        }
        Ok(true)
    }

    /// The place of the next entry in the page.
    fn entry(&mut self) -> Option<Range<usize>> {
        while self.at < self.end {
            let mut input = Input::new(self.page.get(self.at..self.end)?);
            let Some(word) = input.u32() else {
                break;
            };
            let (kind, delta) = (word & 31, u64::from(word >> 5));
            let more = |input: &mut Input<'_>| input.u32();
            let (length, from) = match kind {
                // Padding without a time fills the page up; with one it was an event that was discarded.
                PADDING if delta == 0 => break,
                PADDING => {
                    let Some(length) = more(&mut input) else { break };
                    self.time = self.time.wrapping_add(delta);
                    self.at = self.at.saturating_add(4 + length as usize);
                    continue;
                }
                EXTEND | STAMP => {
                    let Some(high) = more(&mut input) else { break };
                    let time = delta | u64::from(high) << DELTA;
                    self.time = match kind {
                        EXTEND => self.time.wrapping_add(time),
                        _ => stamped(self.time, time),
                    };
                    self.at += 8;
                    continue;
                }
                // Longer than 28 words: the length has a word of its own, and counts it.
                0 => {
                    let Some(length) = more(&mut input) else { break };
                    ((length as usize).checked_sub(4), self.at + 8)
                }
                words => (Some(words as usize * 4), self.at + 4),
            };
            let entry = length.and_then(|length| Some(from..from.checked_add(length)?));
            let Some(entry) = entry.filter(|entry| entry.end <= self.end) else {
                self.broken("a record reaches beyond its page; the rest of the page is not read");
                break;
            };
            self.time = self.time.wrapping_add(delta);
            self.at = entry.end.next_multiple_of(4);
            return Some(entry);
        }
        self.at = self.end;
        None
    }

    /// The next entry, in this page or one behind it.
    fn ahead(&mut self) -> io::Result<Option<Range<usize>>> {
        loop {
            if let Some(entry) = self.entry() {
                return Ok(Some(entry));
            }
            if self.ended || !self.load()? {
                self.ended = true;
                return Ok(None);
            }
        }
    }

    /// The number of an entry's event.
    fn number_of(&self, entry: &Range<usize>) -> Option<u16> {
        let kind = self.page.get(entry.clone())?.get(self.table.type_at..)?;
        Some(u16::from_le_bytes(*kind.first_chunk()?))
    }

    /// The thread of an entry.
    fn thread_of(&self, entry: &Range<usize>) -> u32 {
        let tid = self
            .page
            .get(entry.clone())
            .and_then(|entry| entry.get(self.table.pid_at..)?.first_chunk());
        tid.map_or(0, |tid| u32::from_le_bytes(*tid))
    }

    /// Takes the stack that the kernel wrote behind a record of this thread, where it did and nothing was lost between them.
    fn take_stack(&mut self, tid: u32, field: usize, draft: &mut Draft) -> io::Result<()> {
        let table = self.table.clone();
        let (Some(stack), Some(entry)) = (&table.stack, self.ahead()?) else {
            return Ok(());
        };
        let is_stack = self.number_of(&entry) == Some(stack.number);
        if !is_stack || self.lost > 0 || self.thread_of(&entry) != tid {
            self.pending = Some(entry);
            return Ok(());
        }
        let entry = self.page.get(entry).unwrap_or_default();
        for frame in stack.frames(entry) {
            draft.hold(field, frame);
        }
        Ok(())
    }

    /// Makes an entry a record; false where it is of no known event.
    fn make(&mut self, entry: Range<usize>, draft: &mut Draft) -> io::Result<bool> {
        let Some(kind) = self.number_of(&entry) else {
            self.broken("a record is too short to be of an event");
            return Ok(false);
        };
        let table = self.table.clone();
        let Some(known) = table.by_type.get(&kind) else {
            self.broken(&format!(
                "records of event number {kind}, which the file does not describe, are not shown"
            ));
            return Ok(false);
        };
        let event = &known.event;
        let tid = self.thread_of(&entry);
        let lost = std::mem::take(&mut self.lost);
        let time_ns = table.clock.ns(self.time).max(self.previous_ns);
        self.previous_ns = time_ns;
        let class: &EventClass = &event.class;
        draft.begin(class, time_ns, self.number, (tid, tid));
        let bytes = self.page.get(entry).unwrap_or_default();
        event.read(bytes, draft);
        known.derive(bytes, draft);
        if let Some(field) = known.stack {
            self.take_stack(tid, field, draft)?;
        }
        if !draft.end(class) {
            self.broken("a record is longer than one may be, and is cut");
        }
        draft.lost = lost;
        Ok(true)
    }
}

/// An absolute time, completed with the upper bits of the time before.
fn stamped(before: u64, time: u64) -> u64 {
    let low = (1 << STAMPED) - 1;
    let full = (before & !low) | (time & low);
    match full < before {
        true => full.wrapping_add(1 << STAMPED),
        false => full,
    }
}

impl Events for Cpu {
    fn next(&mut self, draft: &mut Draft) -> io::Result<bool> {
        loop {
            let pending = self.pending.take();
            if let Some(entry) = pending.or_else(|| self.entry()) {
                if self.make(entry, draft)? {
                    return Ok(true);
                }
                continue;
            }
            if !self.ended && self.load()? {
                continue;
            }
            self.ended = true;
            let lost = self.lost.saturating_add(std::mem::take(&mut self.unreported));
            self.lost = 0;
            draft.only_lost(self.previous_ns, self.number, lost);
            return Ok(lost > 0);
        }
    }

    fn damage(&mut self) -> Option<String> {
        self.pages.damage().or_else(|| self.damage.take())
    }
}
