//! Layout of a buffer in kernel memory, byte by byte; the modules `writer` and `reader` use it.
//!
//! A buffer is one array map with an entry per possible CPU. Each entry is a *region*, page-aligned and mapped whole:
//!
//! ```text
//! control      0  position u64      next byte to write, counted since the buffer began; never wraps
//!              8  announced u64     ns, of the newest attempt to reserve
//!             16  lost u64          records lost since the buffer began
//!             24  reserved u64      ns, of the newest reservation
//!             32  acknowledged u64  a reader that acts on records has acted on everything before it
//!             40  adding u64        0, or the page (its offset in the region) whose committed word a writer is changing without a lock
//!             48  left u64          what interrupts of that change have to add to the word
//!             56  frozen u64        of the records lost, those that came while the buffer was frozen
//!             64  consumed u64      stream mode: everything before it has been read (page-aligned)
//!             72  reported u64      records lost that a reader has reported
//!             80  bell u64          0, or a sleeping reader: the position of the page whose writer wakes it (1: the next record wakes it)
//!            128  per event number n:  recorded u64, lost u64  at 128 + 16 n
//! data         a power of two of pages; the page of position p is p / 4096 modulo their number
//! slack        two pages that are never used: the verifier sees data offset + record length, not the page boundary, and for a length that
//!              varies the next power of two
//! ```

use kestrel_trace::info::{BufferInfo, BufferMode};
use kestrel_trace::packet::PAGE;

/// Byte offsets in the control pages.
pub mod offset {
    /// `u64`: next byte to write.
    pub(crate) const POSITION: u32 = 0;
    /// `u64`, ns: time of the newest attempt to reserve, written before it.
    pub(crate) const ANNOUNCED: u32 = 8;
    /// `u64`: records lost.
    pub const LOST: u32 = 16;
    /// `u64`, ns: time of the newest reservation, written after it.
    pub const RESERVED: u32 = 24;
    /// `u64`: a reader that acts on each record has acted on everything before it.
    pub(crate) const ACKNOWLEDGED: u32 = 32;
    /// `u64`: 0, or the offset in the region of the page whose committed word a writer is changing without a lock.
    pub(crate) const ADDING: u32 = 40;
    /// `u64`: what those that interrupted that writer have to add to the word.
    pub const LEFT: u32 = 48;
    /// `u64`: of the records lost, those that came while the buffer was frozen.
    pub const FROZEN: u32 = 56;
    /// `u64`: everything before it has been read.
    pub(crate) const CONSUMED: u32 = 64;
    /// `u64`: records lost that a reader has reported.
    pub const REPORTED: u32 = 72;
    /// `u64`: 0, or what wakes a reader that sleeps ([`bell`](super::super::bell)).
    pub const BELL: u32 = 80;
    /// First of the counters per event number.
    pub const COUNTERS: u32 = 128;
}

/// Bytes of the slack behind the data.
pub(crate) const SLACK: u32 = 2 * PAGE;

/// Bytes of counters per event number: recorded, lost.
pub const COUNTER: u32 = 16;

/// Behaviour of a full ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The newest record is lost and counted; a reader drains the ring.
    Stream,
    /// The oldest page is overwritten: a flight recorder.
    Overwrite,
}

impl Mode {
    /// The name in table files and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Overwrite => "overwrite",
        }
    }
}

/// The geometry of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Full-ring behaviour.
    pub mode: Mode,
    /// Pages of data per CPU: a power of two.
    pub pages: u32,
    /// One more than the highest event number.
    pub events: u32,
}

/// The smallest ring of one CPU: what is smaller is rounded up. Two pages: one holds records while the other is written, and a writer that leaves
/// a page needs another one to go to.
pub const MIN_BYTES: u64 = 2 * PAGE as u64;

/// The largest ring of one CPU: where a record begins is a variable offset in an array map's value, and the verifier follows those below 512 MiB.
/// Linux 7.2 takes the control pages before the data for a part of the offset, and the next smaller power of two is this.
pub const MAX_BYTES: u64 = 256 << 20;

impl Geometry {
    /// A geometry with at least `bytes` per CPU: rounded up to a power of two of pages, at least two.
    pub fn new(mode: Mode, bytes: u64, events: u32) -> Self {
        let bytes = bytes.clamp(MIN_BYTES, MAX_BYTES);
        let pages = bytes.div_ceil(u64::from(PAGE)).next_power_of_two() as u32;
        Self { mode, pages, events }
    }

    /// A buffer of this shape as a trace describes it.
    pub fn info(&self, number: u32, name: &str) -> BufferInfo {
        BufferInfo {
            number,
            name: name.to_owned(),
            mode: match self.mode {
                Mode::Stream => BufferMode::Discard,
                Mode::Overwrite => BufferMode::Overwrite,
            },
            bytes_per_cpu: u64::from(self.data()),
        }
    }

    /// Bytes of control pages: where the data begins.
    pub fn control(&self) -> u32 {
        (offset::COUNTERS + COUNTER * (self.number_mask() + 1)).next_multiple_of(PAGE)
    }

    /// Mask that programs apply to an event number, which it leaves as it is: the bound that the verifier sees. A comparison would not do, because the verifier
    /// of Linux 6.1 forgets it when the number is kept on the stack. There are counters for all numbers up to the mask.
    pub(crate) fn number_mask(&self) -> u32 {
        self.events.next_power_of_two() - 1
    }

    /// Bytes of data.
    pub fn data(&self) -> u32 {
        self.pages * PAGE
    }

    /// Bytes of a region: the map's value size.
    pub fn region(&self) -> u32 {
        self.control() + self.data() + SLACK
    }

    /// Offset in the region of the counters of an event number.
    pub fn counter(&self, event: u16) -> u32 {
        offset::COUNTERS + COUNTER * u32::from(event)
    }

    /// Offset in the region of the page that holds position `position`.
    pub fn page(&self, position: u64) -> u32 {
        self.control() + (position & u64::from(self.data() - 1)) as u32 / PAGE * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_pages_and_hold_every_counter() {
        for events in [1, 8, 1000, 4096] {
            let g = Geometry::new(Mode::Stream, 100_000, events);
            assert_eq!(g.pages, 32);
            assert_eq!(g.region() % PAGE, 0);
            assert!(g.counter(events as u16 - 1) + COUNTER <= g.control());
            assert!(g.counter(g.number_mask() as u16) + COUNTER <= g.control());
            assert!(g.number_mask() >= events - 1);
        }
    }

    #[test]
    fn positions_come_round() {
        let g = Geometry::new(Mode::Overwrite, 16384, 2);
        assert_eq!(g.page(0), g.control());
        assert_eq!(g.page(4096 * 5 + 100), g.control() + 4096);
    }
}
