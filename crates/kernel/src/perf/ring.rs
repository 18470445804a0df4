//! The ring that perf shares with a reader: one per event, records in the layout of `struct perf_event_mmap_page`; what the records mean is its clients' matter.

use super::PerfEvent;
use crate::error::{Error, Result};
use crate::mmap::{Access, Mapping};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

const PAGE: usize = 4096;
/// Places of `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// `struct perf_event_header`: type u32, misc u16, size u16.
const HEADER: usize = 8;
/// `PERF_RECORD_LOST`.
const LOST: u32 = 2;

/// A record as it lies in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingRecord<'a> {
    /// `PERF_RECORD_LOST`: so many records found no room.
    Lost(u64),
    /// Any other.
    Other {
        /// `enum perf_event_type`.
        kind: u32,
        /// `PERF_RECORD_MISC_*`.
        misc: u16,
        /// Bytes behind the header.
        body: &'a [u8],
    },
}

/// A perf event and the ring that its records go to.
#[derive(Debug)]
pub struct PerfRing {
    event: PerfEvent,
    memory: Mapping,
    /// Bytes of the ring, a power of two.
    size: usize,
}

impl PerfRing {
    /// Maps a ring of `pages` pages, a power of two.
    ///
    /// # Errors
    /// [`Error::System`]: `EPERM` beyond the memory that may be locked.
    pub fn new(event: PerfEvent, pages: usize) -> Result<Self> {
        let size = pages * PAGE;
        let memory = Mapping::new(event.as_fd(), 0, PAGE + size, Access::ReadWrite)?;
        Ok(Self { event, memory, size })
    }

    /// The event that writes to the ring.
    pub fn event(&self) -> &PerfEvent {
        &self.event
    }

    /// Hands over all records that are there and makes room for others.
    ///
    /// # Errors
    /// [`Error::Format`] if the ring makes no sense.
    pub fn read(&self, each: &mut dyn FnMut(RingRecord<'_>)) -> Result<()> {
        let strange = |why: &str| Error::Format {
            subject: format!("the ring of {}", self.event),
            why: why.to_owned(),
        };
        let place = |at| {
            self.memory
                .atomic_u64(at)
                .ok_or_else(|| strange("its positions cannot be mapped"))
        };
        let (head, tail) = (place(HEAD)?.load(Ordering::Acquire), place(TAIL)?);
        let mut at = tail.load(Ordering::Relaxed);
        while at < head {
            let header = self.bytes(at, HEADER)?;
            let (kind, word) = (word(&header, 0), word(&header, 4));
            let (misc, size) = (word as u16, (word >> 16) as usize);
            // The ring is memory shared with the kernel; a bad length would read beyond it or never end.
            if size < HEADER || size as u64 > head - at {
                return Err(strange("a record has an impossible length"));
            }
            let body = self.bytes(at + HEADER as u64, size - HEADER)?;
            each(match kind {
                LOST => {
                    RingRecord::Lost(u64::from(self::word(&body, 8)) | u64::from(self::word(&body, 12)) << 32)
                }
                _ => RingRecord::Other {
                    kind,
                    misc,
                    body: &body,
                },
            });
            at += size as u64;
            // After each record, so that the kernel has room again as soon as there is some.
            tail.store(at, Ordering::Release);
        }
        Ok(())
    }

    /// Bytes from a position on, which may wrap around the end.
    fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let from = at as usize % self.size;
        let first = length.min(self.size - from);
        let (head, rest) = bytes.split_at_mut(first);
        self.memory.copy_out(PAGE + from, head)?;
        self.memory.copy_out(PAGE, rest)?;
        Ok(bytes)
    }
}

/// The word at a place of a record; 0 where the record is too short for it.
fn word(bytes: &[u8], from: usize) -> u32 {
    bytes
        .get(from..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
