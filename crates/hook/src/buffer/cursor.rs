//! Looking at a ring while its writers and its reader go on: every page from a cursor on, nothing taken, and what was overwritten before it was reached is
//! counted.
//!
//! A stream's reader frees pages; their bytes are there until a writer comes round to them, so they are looked at all the same.

use super::layout::Mode;
use super::memory::Memory;
use super::reader::{PAGE64, Ring};
use kestrel_catalog::Result;
use kestrel_trace::packet::{self, HEADER, PAGE};

/// How far a reader that takes nothing has read a CPU's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    cpu: u32,
    /// Position of the page that is looked at next.
    page: u64,
    /// Position up to which its records have been shown.
    seen: u64,
    /// Pages overwritten before they were reached; of the first of them some records may have been shown.
    missed: u64,
}

impl Cursor {
    /// Its CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Pages overwritten before they were reached.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// Records kept in a CPU's ring up to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The position.
    pub position: u64,
    /// Records that had been kept then, since the ring's counts began.
    pub recorded: u64,
}

/// How often a moment is sought in that no writer is in the middle of a record.
const LOOKS: u32 = 500;
/// Pages before the one in use that a writer who was interrupted may be at.
const NEWEST: u64 = 8;

impl<M: Memory> Ring<M> {
    /// A cursor at a position of a CPU's ring; without one behind all that it holds now.
    pub fn cursor(&self, cpu: u32, position: Option<u64>) -> Cursor {
        let seen = position.unwrap_or_else(|| self.position(cpu));
        Cursor {
            cpu,
            page: (seen - 1) / PAGE64 * PAGE64,
            seen,
            missed: 0,
        }
    }

    /// A cursor before the first page of a CPU that may hold records of `since_ns` or later.
    pub fn cursor_since(&self, cpu: u32, since_ns: u64) -> Cursor {
        let page = self.stretch(cpu, since_ns).first();
        Cursor {
            cpu,
            page,
            seen: page + u64::from(HEADER),
            missed: 0,
        }
    }

    /// A cursor at the very beginning of a CPU's ring, and, if nothing was overwritten there yet, how many records its counts had begun with.
    pub fn cursor_at_start(&self, cpu: u32) -> (Cursor, Option<Mark>) {
        let start = u64::from(HEADER);
        let begun = || {
            let mark = self.mark(cpu)?;
            let held = self.events_held(cpu, 0, self.current(cpu));
            let same = self.position(cpu) == mark.position && !self.is_overwritten(cpu, 0);
            same.then(|| Mark {
                position: 0,
                recorded: mark.recorded.saturating_sub(held),
            })
        };
        let begun = (0..LOOKS).find_map(|_| begun());
        (self.cursor(cpu, Some(start)), begun)
    }

    /// Shows what has come since, at most so many pages, each with the offset of the first record not shown before, and its position. `now` becomes
    /// the end of the page in use. Whether that was all.
    ///
    /// # Errors
    /// Those of `show`.
    pub fn watch(
        &self,
        cursor: &mut Cursor,
        now: u64,
        most: usize,
        mut show: impl FnMut(&[u8], u32, u64) -> Result<()>,
    ) -> Result<bool> {
        let cpu = cursor.cpu;
        let mut bytes = vec![0; PAGE as usize];
        let mut pages = 0;
        loop {
            let current = self.current(cpu);
            if self.is_overwritten(cpu, cursor.page) {
                let oldest = (current + PAGE64).saturating_sub(u64::from(self.geometry().data()));
                cursor.missed += (oldest - cursor.page) / PAGE64;
                (cursor.page, cursor.seen) = (oldest, oldest + u64::from(HEADER));
                continue;
            }
            let from = (cursor.seen - cursor.page) as u32;
            if cursor.page < current {
                if pages == most {
                    return Ok(false);
                }
                if !self.is_whole(cpu, cursor.page) {
                    // Its last writer is at it still.
                    return Ok(true);
                }
                self.copy(cpu, cursor.page, &mut bytes)?;
                if self.is_overwritten(cpu, cursor.page) {
                    continue;
                }
                show(&bytes, from, cursor.page)?;
                pages += 1;
                cursor.page += PAGE64;
                cursor.seen = cursor.page + u64::from(HEADER);
                continue;
            }
            let position = self.position(cpu);
            if position > cursor.seen
                && (position - 1) / PAGE64 * PAGE64 == cursor.page
                && let Some(bytes) = self.finished(cpu, position, now)?
            {
                show(&bytes, from, cursor.page)?;
                cursor.seen = position;
            }
            return Ok(true);
        }
    }

    /// How many records a CPU's overwriting ring has kept so far, and up to which position; `None` in a stream, which does not count them, or when
    /// there is no moment without a writer in the middle of a record.
    pub fn mark(&self, cpu: u32) -> Option<Mark> {
        if self.geometry().mode == Mode::Stream {
            return None;
        }
        let numbers = 0..self.geometry().events.min(1 << 16);
        for _ in 0..LOOKS {
            let position = self.position(cpu);
            if self.is_still(cpu, position) {
                let recorded = numbers.clone().map(|n| self.counts(cpu, n as u16).recorded).sum();
                if self.position(cpu) == position {
                    return Some(Mark { position, recorded });
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Whether every record of the newest pages up to a position is committed: who interrupts whom does not reach further back.
    fn is_still(&self, cpu: u32, position: u64) -> bool {
        let page = (position - 1) / PAGE64 * PAGE64;
        let used = (position - page) as u32;
        let from = self.oldest(cpu, page).max(page.saturating_sub(NEWEST * PAGE64));
        let mut left = (from..page).step_by(PAGE64 as usize);
        let committed = self.header(cpu, page, packet::offset::COMMITTED);
        left.all(|page| self.is_whole(cpu, page)) && committed as u32 == used - HEADER
    }
}
