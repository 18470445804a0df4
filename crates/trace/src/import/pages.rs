//! Records of another tool as the pages that Kestrel's recorder would have written: a page ends where the CPU changes, time runs backwards, events were lost, or
//! packets are absent.

use super::draft::{Draft, Events};
use crate::ctf::read::Source;
use crate::info::Uuid;
use crate::packet::{HEADER, MAGIC, PAGE, offset, whole};
use std::io;

/// A stream's records as pages.
#[derive(Debug)]
pub(super) struct Pages {
    events: Box<dyn Events>,
    uuid: Uuid,
    buffer: u32,
    draft: Draft,
    /// Whether the draft waits for a page.
    waits: bool,
    sequence: u64,
    lost: u64,
}

impl Pages {
    pub(super) fn new(events: Box<dyn Events>, uuid: Uuid, buffer: u32) -> Self {
        Self {
            events,
            uuid,
            buffer,
            draft: Draft::default(),
            waits: false,
            sequence: 0,
            lost: 0,
        }
    }

    /// Fills a page; false at the end.
    fn fill(&mut self, page: &mut [u8]) -> io::Result<bool> {
        if !self.waits && !self.events.next(&mut self.draft)? {
            return Ok(false);
        }
        let (cpu, begin_ns) = (self.draft.cpu, self.draft.time_ns);
        let (mut at, mut count, mut end_ns) = (HEADER as usize, 0, begin_ns);
        self.lost = self.lost.saturating_add(self.draft.lost);
        self.sequence = self.sequence.saturating_add(self.draft.absent);
        loop {
            let record = self.draft.bytes();
            // A draft without a record only announces losses; it gets a page whose header counts them.
            if self.draft.is_record()
                && let Some(place) = page.get_mut(at..at + record.len())
            {
                place.copy_from_slice(record);
                at += record.len();
                count += 1;
                end_ns = self.draft.time_ns;
            }
            self.waits = self.events.next(&mut self.draft)?;
            let fits = at + self.draft.bytes().len() <= page.len();
            let follows = self.draft.cpu == cpu && self.draft.time_ns >= end_ns;
            let has_gap = self.draft.lost > 0 || self.draft.absent > 0;
            if !(self.waits && fits && follows) || has_gap {
                break;
            }
        }
        let mut put =
            |at: u32, bytes: &[u8]| page[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        put(offset::MAGIC, &MAGIC.to_le_bytes());
        put(offset::UUID, &self.uuid.0);
        put(offset::STREAM, &0u32.to_le_bytes());
        put(offset::TIMESTAMP_BEGIN, &begin_ns.to_le_bytes());
        put(offset::TIMESTAMP_END, &end_ns.to_le_bytes());
        put(offset::CONTENT_SIZE, &(at as u64 * 8).to_le_bytes());
        put(offset::PACKET_SIZE, &(u64::from(PAGE) * 8).to_le_bytes());
        put(offset::SEQUENCE, &self.sequence.to_le_bytes());
        put(offset::DISCARDED, &self.lost.to_le_bytes());
        put(offset::CPU, &cpu.to_le_bytes());
        put(offset::BUFFER, &self.buffer.to_le_bytes());
        put(offset::COMMITTED, &whole(count).to_le_bytes());
        self.sequence = self.sequence.saturating_add(1);
        Ok(true)
    }
}

impl Source for Pages {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        for page in bytes.chunks_exact_mut(PAGE as usize) {
            if !self.fill(page)? {
                break;
            }
            read += PAGE as usize;
        }
        Ok(read)
    }

    fn damage(&mut self) -> Option<String> {
        self.events.damage()
    }
}
