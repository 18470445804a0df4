//! Reading a ring: a cursor per reader and CPU, and a policy that says what reading does to the ring.
//!
//! ```text
//! policy     shows                                  a page that is not whole    pages that were shown
//! Tail       what has come since                    ends the reading for now    are left for other readers
//! Take       what has come since                    ends the reading for now    are freed for a stream's writers
//! Snapshot   what was there when the cursor began   is waited for, then cut     are left for other readers
//! Rest       all that is left without writers       is cut at once              are freed
//! ```
//!
//! Of the page in use the committed records are shown. Writers go on meanwhile: a page that may be overwritten while it is copied is checked again afterwards: its next opener moves the position first.
//! Records overwritten before the cursor reached them are counted in the cursor. A stream's reader frees pages; their bytes are there until a writer comes round.

use super::layout::{Mode, offset};
use super::memory::Memory;
use super::reader::{PAGE64, Ring, page_of};
use kestrel_catalog::Result;
use kestrel_trace::ctf::packet::{self as ctf, Packet, Page};
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::{self, CAPACITY, HEADER, PAGE, SEALED};
use std::ops::{AddAssign, ControlFlow};
use std::time::Duration;

/// Reading policy: effect on the ring, and where reading ends.
#[derive(Clone, Copy, Debug)]
pub enum Policy<'a> {
    /// Takes nothing: records as they come, while other readers go on.
    Tail,
    /// Frees each whole page for a stream's writers once it was shown.
    Take,
    /// Takes nothing, and ends with the page that was in use when the cursor was made. A writer that was interrupted or preempted in the middle of a
    /// record is given a moment; then its page is cut before that record.
    Snapshot(&'a EventTable),
    /// Takes all that is left by writers that are gone. Where one was stopped in the middle of a record, the page is cut before it.
    Rest(&'a EventTable),
}

/// Start position of a cursor.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// Behind all that the ring holds now.
    Now,
    /// At a position, which is that of a record or of a page's end.
    At(u64),
    /// At the oldest page that a stream's reader has not freed.
    Unfreed,
    /// At the first page that may hold records of this time (ns) or later, of those that a stream's reader has not freed.
    Since(u64),
    /// At the very beginning of the ring.
    Start,
}

/// Position of a reader in a CPU's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    cpu: u32,
    /// Position of the page that is looked at next.
    page: u64,
    /// Position up to which its records have been shown.
    seen: u64,
    /// The page that was in use when the cursor was made.
    last: u64,
    unread: Unread,
}

/// Records that a reader did not get to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Pages overwritten before they were reached; of the first of them some records may have been shown.
    pub overwritten: u64,
    /// Pages in which a writer was between reserve and commit.
    pub unfinished: u64,
    /// Committed records behind such a place, which cannot be found.
    pub torn: u64,
}

impl AddAssign for Unread {
    fn add_assign(&mut self, other: Self) {
        self.overwritten += other.overwritten;
        self.unfinished += other.unfinished;
        self.torn += other.torn;
    }
}

/// A page as a reader is shown it: a copy, sealed.
#[derive(Debug)]
pub struct View<'a> {
    /// The packet's bytes.
    pub bytes: &'a mut Page,
    /// The position in the ring at which the packet begins.
    pub position: u64,
    /// Offset of the first record that this cursor has not shown before.
    pub from: u32,
    /// Whether it is the page in use, to which more may come.
    pub is_part: bool,
}

impl Cursor {
    /// The CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Everything before it has been shown.
    pub fn position(&self) -> u64 {
        self.seen
    }

    /// Records that this cursor did not get to read.
    pub fn unread(&self) -> Unread {
        self.unread
    }

    fn go_to(&mut self, page: u64) {
        (self.page, self.seen) = (page, page + u64::from(HEADER));
    }
}

/// Looks of [`Policy::Snapshot`] at a page that is not whole.
const LOOKS: u32 = 50;
/// The last ones of them, which come after a pause.
const PAUSES: u32 = 10;
/// Time in which a writer that was interrupted is done, and mostly one that was preempted.
const PAUSE: Duration = Duration::from_micros(100);

/// The next thing at a cursor: a page, a gap, or the end.
enum Found {
    /// A page to which nothing more comes.
    Whole,
    /// The page in use, its records committed up to this position.
    Part(u64),
    /// A page with a writer in the middle of it: as far as it holds together, and how many records are behind that place.
    Torn(u32),
    /// A page that a writer is still opening, or of whose first record it is in the middle.
    Unopened,
    /// Writers have come round to the page, or a stream's reader has freed it.
    Gone,
    /// No more records for now.
    End,
}

impl<'a> Policy<'a> {
    /// Whether pages shown are freed.
    fn takes(self) -> bool {
        matches!(self, Self::Take | Self::Rest(_))
    }

    fn is_snapshot(self) -> bool {
        matches!(self, Self::Snapshot(_))
    }

    /// Number of looks at a page that is not whole.
    fn looks(self) -> u32 {
        if self.is_snapshot() { LOOKS } else { 1 }
    }

    /// The events by which an unfinished page is cut.
    fn cuts(self) -> Option<&'a EventTable> {
        match self {
            Self::Tail | Self::Take => None,
            Self::Snapshot(events) | Self::Rest(events) => Some(events),
        }
    }
}

impl<M: Memory> Ring<M> {
    /// A cursor of a CPU's ring.
    pub fn cursor(&self, cpu: u32, begin: Begin) -> Cursor {
        let last = self.in_use(cpu);
        let first = |page: u64| page + u64::from(HEADER);
        let seen = match begin {
            Begin::Now => self.position(cpu),
            Begin::At(position) => position,
            Begin::Unfreed => first(self.freed(cpu)),
            Begin::Since(since_ns) => {
                let mut page = self.oldest_unfreed(cpu, last);
                while page < last && self.is_before(cpu, page, since_ns) {
                    page += PAGE64;
                }
                first(page)
            }
            Begin::Start => first(0),
        };
        Cursor {
            cpu,
            page: page_of(seen),
            seen,
            last,
            unread: Unread::default(),
        }
    }

    /// Whether a page was left before a time, as far as one can tell of pages that are overwritten just now.
    fn is_before(&self, cpu: u32, page: u64, time_ns: u64) -> bool {
        let whole = self.is_whole(cpu, page);
        let end = self.header(cpu, page, packet::offset::TIMESTAMP_END);
        time_ns > 0 && (whole && end < time_ns || self.is_overwritten(cpu, page))
    }

    /// Shows every page from the cursor on that has something new, until `show` breaks off. `now` becomes the end of the page in use. Gives whether
    /// that was all there is.
    ///
    /// # Errors
    /// Errors of `show`; the cursor is left before the page that `show` refused.
    pub fn follow(
        &self,
        cursor: &mut Cursor,
        policy: Policy<'_>,
        now: u64,
        show: &mut dyn FnMut(View<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<bool> {
        let mut bytes: Page = [0; PAGE as usize];
        while !policy.is_snapshot() || cursor.page <= cursor.last {
            let found = self.look(cursor, policy, now, &mut bytes)?;
            match found {
                Found::End => break,
                Found::Gone => {
                    self.pass_over(cursor, policy);
                    continue;
                }
                Found::Torn(torn) => {
                    cursor.unread.unfinished += 1;
                    cursor.unread.torn += u64::from(torn);
                }
                Found::Unopened => cursor.unread.unfinished += 1,
                Found::Whole | Found::Part(_) => {}
            }
            let mut flow = ControlFlow::Continue(());
            if !matches!(found, Found::Unopened) {
                flow = show(View {
                    bytes: &mut bytes,
                    position: cursor.page,
                    from: (cursor.seen - cursor.page) as u32,
                    is_part: matches!(found, Found::Part(_)),
                })?;
            }
            if let Found::Part(position) = found {
                cursor.seen = position;
                break;
            }
            if cursor.page == self.in_use(cursor.cpu) {
                // Cut: nothing is behind the page in use, and it is not for writers to take.
                break;
            }
            cursor.go_to(cursor.page + PAGE64);
            if policy.takes() && self.geometry().mode == Mode::Stream {
                self.free(cursor.cpu, cursor.page);
            }
            if flow.is_break() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends every page that [`Ring::follow`] shows.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn collect(
        &self,
        cursor: &mut Cursor,
        policy: Policy<'_>,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Unread> {
        self.follow(cursor, policy, now, &mut |view| {
            out.extend_from_slice(view.bytes);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(cursor.unread)
    }

    /// Goes on to the oldest page still there, and counts what was overwritten before it.
    fn pass_over(&self, cursor: &mut Cursor, policy: Policy<'_>) {
        let current = self.in_use(cursor.cpu);
        let (oldest, end) = match policy.is_snapshot() {
            true => (self.oldest_unfreed(cursor.cpu, current), cursor.last + PAGE64),
            false => (self.oldest(current), u64::MAX),
        };
        let next = oldest.max(cursor.page + PAGE64).min(end);
        // A stream's reader has the pages that it has freed.
        if !policy.is_snapshot() || self.geometry().mode == Mode::Overwrite {
            cursor.unread.overwritten += (next - cursor.page) / PAGE64;
        }
        cursor.go_to(next);
    }

    fn is_gone(&self, cpu: u32, page: u64, policy: Policy<'_>) -> bool {
        let freed = policy.is_snapshot() && self.geometry().mode == Mode::Stream && page < self.freed(cpu);
        freed || self.is_overwritten(cpu, page)
    }

    /// Copies the page at a cursor, if there is something to show of it.
    fn look(&self, cursor: &Cursor, policy: Policy<'_>, now: u64, bytes: &mut Page) -> Result<Found> {
        let Cursor { cpu, page, .. } = *cursor;
        let looks = policy.looks();
        for look in 0..looks {
            // Before a look: what became whole during the last pause is seen, too.
            if looks > 1 && look + PAUSES >= looks {
                std::thread::sleep(PAUSE);
            }
            if self.is_gone(cpu, page, policy) {
                return Ok(Found::Gone);
            }
            if self.is_whole(cpu, page) {
                self.copy(cpu, page, bytes)?;
                let gone = self.is_gone(cpu, page, policy);
                return Ok(if gone { Found::Gone } else { Found::Whole });
            }
            let position = self.position(cpu);
            if position <= cursor.seen {
                return Ok(Found::End);
            }
            if page_of(position) == page && self.finished(cpu, position, now, bytes)? {
                return Ok(Found::Part(position));
            }
        }
        match policy.cuts() {
            Some(events) => self.cut(cursor, policy, (events, now), bytes),
            None => Ok(Found::End),
        }
    }

    /// Copies the page in use, sealed at `position`, if every record before that is committed; says whether it is.
    fn finished(&self, cpu: u32, position: u64, now: u64, bytes: &mut Page) -> Result<bool> {
        let page = page_of(position);
        let used = (position - page) as u32;
        let committed = self.header(cpu, page, packet::offset::COMMITTED);
        // Bytes reserved since would count as committed, too: there must be none.
        if committed as u32 != used - HEADER || self.position(cpu) != position {
            return Ok(false);
        }
        self.copy(cpu, page, bytes)?;
        if self.is_overwritten(cpu, page) {
            return Ok(false);
        }
        let newest = self
            .control(cpu, offset::ANNOUNCED)
            .max(self.control(cpu, offset::RESERVED));
        put(bytes, packet::offset::TIMESTAMP_END, now.max(newest));
        put(bytes, packet::offset::CONTENT_SIZE, u64::from(used) * 8);
        put(bytes, packet::offset::DISCARDED, self.lost(cpu));
        let whole = u64::from(CAPACITY + SEALED) | committed >> 32 << 32;
        put(bytes, packet::offset::COMMITTED, whole);
        Ok(true)
    }

    /// Copies a page that a writer does not finish, and seals it as far as it holds together.
    fn cut(
        &self,
        cursor: &Cursor,
        policy: Policy<'_>,
        (events, now): (&EventTable, u64),
        bytes: &mut Page,
    ) -> Result<Found> {
        let Cursor { cpu, page, .. } = *cursor;
        self.copy(cpu, page, bytes)?;
        if self.is_gone(cpu, page, policy) {
            return Ok(Found::Gone);
        }
        if Packet::parse(bytes.as_slice()).map(|packet| packet.sequence) != Ok(page / PAGE64) {
            return Ok(Found::Unopened);
        }
        let writers_are_gone = !policy.is_snapshot();
        if writers_are_gone && self.control(cpu, offset::ADDING) == u64::from(self.geometry().page(page)) {
            // A writer stopped while it changed the word: what others left to it is part of the word.
            let committed = self.header(cpu, page, packet::offset::COMMITTED);
            put(
                bytes,
                packet::offset::COMMITTED,
                committed + self.control(cpu, offset::LEFT),
            );
        }
        let lost = self.lost_up_to(cpu, page);
        put(bytes, packet::offset::DISCARDED, lost);
        let Ok(sealed) = ctf::seal(bytes, events) else {
            return Ok(Found::Unopened);
        };
        // Losses that a last packet reports happened before its end.
        if page_of(self.position(cpu)) == page
            && Packet::parse(bytes.as_slice()).is_ok_and(|packet| packet.end_ns < now)
        {
            put(bytes, packet::offset::TIMESTAMP_END, now);
        }
        Ok(Found::Torn(sealed.torn))
    }

    /// Records lost up to the end of a page that says no number, as the next whole one says it: the best there is.
    fn lost_up_to(&self, cpu: u32, page: u64) -> u64 {
        let mut later = (page + PAGE64..self.in_use(cpu)).step_by(PAGE as usize);
        let next = later.find(|page| self.is_whole(cpu, *page));
        match next.map(|page| (page, self.header(cpu, page, packet::offset::DISCARDED))) {
            Some((page, lost)) if !self.is_overwritten(cpu, page) => lost,
            _ => self.lost(cpu),
        }
    }
}

/// Writes a word of a page's header.
fn put(bytes: &mut Page, at: u32, value: u64) {
    bytes[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
}
