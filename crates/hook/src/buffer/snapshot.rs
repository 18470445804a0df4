//! A copy of a ring while its writers and its reader go on: nothing is freed, neither side waits, and what was overwritten meanwhile is counted.
//!
//! A page counts as copied when it was whole before and its writers have not come round to it after ([`Ring::drain`] says why that is
//! enough). What is not whole is given a moment: a writer that was interrupted or preempted finishes soon. Then it is taken as far as it
//! holds together.

use super::layout::{Mode, offset};
use super::memory::Memory;
use super::reader::{PAGE64, Ring};
use kestrel_catalog::Result;
use kestrel_trace::ctf::packet::{self as ctf, Packet, Page};
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::{self, PAGE};
use std::time::Duration;

/// What a copy of a ring came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Pages appended.
    pub pages: u64,
    /// Pages overwritten after the copy began, before they were reached.
    pub overwritten: u64,
    /// Pages in which a writer was between reserve and commit, for longer than a moment.
    pub unfinished: u64,
    /// Committed records behind such a place, which cannot be found.
    pub torn: u64,
}

impl Copied {
    /// Adds what the copy of another ring came to.
    pub fn add(&mut self, other: Self) {
        self.pages += other.pages;
        self.overwritten += other.overwritten;
        self.unfinished += other.unfinished;
        self.torn += other.torn;
    }
}

/// A stretch of a ring that is to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Position of its first page.
    from: u64,
    /// Position of its last page, which was in use when the stretch was taken.
    last: u64,
}

impl Stretch {
    /// Position of its first page.
    pub(super) fn first(&self) -> u64 {
        self.from
    }
}

/// How often a page that is not whole is looked at: at once, and after a pause.
const LOOKS: u32 = 50;
const PAUSES: u32 = 10;
const PAUSE: Duration = Duration::from_micros(100);

/// A page copied.
enum Look {
    /// All of it.
    Whole(Page),
    /// As far as it holds together, and how many records are behind that place.
    Torn(Page, u32),
    /// A writer is still opening it, or broke off in its first record.
    Nothing,
    /// Writers have come round to it, or a reader has freed it.
    Gone,
}

impl<M: Memory> Ring<M> {
    /// What a CPU's ring holds now, from the first page on that may have records of `since_ns` or later.
    pub fn stretch(&self, cpu: u32, since_ns: u64) -> Stretch {
        let last = self.current(cpu);
        let mut from = self.oldest(cpu, last);
        while from < last && self.is_before(cpu, from, since_ns) {
            from += PAGE64;
        }
        Stretch { from, last }
    }

    /// Whether a page was left before a time, as far as one can tell of pages that are overwritten just now.
    fn is_before(&self, cpu: u32, page: u64, time_ns: u64) -> bool {
        let whole = self.is_whole(cpu, page);
        let end = self.header(cpu, page, packet::offset::TIMESTAMP_END);
        time_ns > 0 && (whole && end < time_ns || self.is_overwritten(cpu, page))
    }

    /// The oldest page of a CPU that is there while `current` is in use, and not freed by a stream's reader.
    pub(super) fn oldest(&self, cpu: u32, current: u64) -> u64 {
        let oldest = (current + PAGE64).saturating_sub(u64::from(self.geometry().data()));
        match self.geometry().mode {
            Mode::Overwrite => oldest,
            Mode::Stream => oldest.max(self.control(cpu, offset::CONSUMED)),
        }
    }

    /// Appends a stretch of a CPU's ring to `out`, without records from before `since_ns`; `now` becomes the end of the page in use. Writers
    /// go on, and nothing is taken from other readers.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn copy_stretch(
        &self,
        cpu: u32,
        stretch: Stretch,
        since_ns: u64,
        now: u64,
        events: &EventTable,
        out: &mut Vec<u8>,
    ) -> Result<Copied> {
        let mut copied = Copied::default();
        let (begin, mut sealed) = (out.len(), Vec::new());
        let mut at = stretch.from;
        while at <= stretch.last {
            let mut page = match self.look(cpu, at, now, events)? {
                Look::Whole(page) => page,
                Look::Torn(page, torn) => {
                    copied.unfinished += 1;
                    copied.torn += u64::from(torn);
                    sealed.push(out.len());
                    page
                }
                Look::Nothing => {
                    copied.unfinished += 1;
                    at += PAGE64;
                    continue;
                }
                Look::Gone => {
                    let next = self
                        .oldest(cpu, self.current(cpu))
                        .max(at + PAGE64)
                        .min(stretch.last + PAGE64);
                    // What a stream's reader has freed, it has.
                    if self.geometry().mode == Mode::Overwrite {
                        copied.overwritten += (next - at) / PAGE64;
                    }
                    at = next;
                    continue;
                }
            };
            at += PAGE64;
            if ctf::cut_before(&mut page, since_ns, events).is_ok_and(|left| left > 0) {
                out.extend_from_slice(&page);
                copied.pages += 1;
            }
        }
        // How many were lost until then is said by who leaves a page; where nobody has, the next one's number is the best there is.
        let mut lost = self.lost(cpu);
        for at in (begin..out.len()).step_by(PAGE as usize).rev() {
            let word = &mut out[at + packet::offset::DISCARDED as usize..][..8];
            if sealed.contains(&at) {
                word.copy_from_slice(&lost.to_le_bytes());
            } else if let Some(bytes) = word.first_chunk() {
                lost = u64::from_le_bytes(*bytes);
            }
        }
        Ok(copied)
    }

    /// Copies a page as soon as it is whole, or every record in it is.
    fn look(&self, cpu: u32, at: u64, now: u64, events: &EventTable) -> Result<Look> {
        let mut page: Page = [0; PAGE as usize];
        for look in 0..LOOKS {
            if self.is_gone(cpu, at) {
                return Ok(Look::Gone);
            }
            if self.is_whole(cpu, at) {
                self.copy(cpu, at, &mut page)?;
                return Ok(if self.is_gone(cpu, at) {
                    Look::Gone
                } else {
                    Look::Whole(page)
                });
            }
            let position = self.position(cpu);
            if (position - 1) / PAGE64 * PAGE64 == at
                && let Some(bytes) = self.finished(cpu, position, now)?
            {
                page.copy_from_slice(&bytes);
                return Ok(Look::Whole(page));
            }
            if look >= LOOKS - PAUSES {
                std::thread::sleep(PAUSE);
            }
        }
        self.copy(cpu, at, &mut page)?;
        if self.is_gone(cpu, at) {
            return Ok(Look::Gone);
        }
        if Packet::parse(&page).map(|packet| packet.sequence) != Ok(at / PAGE64) {
            return Ok(Look::Nothing);
        }
        Ok(match ctf::seal(&mut page, events) {
            Ok(sealed) => Look::Torn(page, sealed.torn),
            Err(_) => Look::Nothing,
        })
    }

    fn is_gone(&self, cpu: u32, page: u64) -> bool {
        let freed = match self.geometry().mode {
            Mode::Overwrite => 0,
            Mode::Stream => self.control(cpu, offset::CONSUMED),
        };
        page < freed || self.is_overwritten(cpu, page)
    }
}
