//! From bytes in a page to records: finds the class, checks the bounds, completes the time; fields are `record`'s matter.

use crate::event::{EventClass, EventId};
use crate::layout::PAYLOAD;
use crate::record::Record;
use crate::unwound::Unwound;
use kestrel_layout::record::TIME_BITS;

/// The event classes of a trace, found by number.
#[derive(Clone, Debug, Default)]
pub struct EventTable {
    classes: Vec<Class>,
    /// For each number, 1 + its index in `classes`, or 0.
    by_id: Vec<u32>,
    unwound: Option<Unwound>,
}

/// An event class, prepared for walking over its records.
#[derive(Clone, Debug)]
struct Class {
    event: EventClass,
    /// Bytes of each record, where constant; else 0.
    constant: usize,
    /// Offset of the count and bytes of an element, for each variable field.
    counts: Vec<(usize, usize)>,
}

/// Why the bytes at some offset of a page are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The header's number is not one of the trace's events.
    #[error("unknown event number {0}")]
    UnknownEvent(u16),
    /// The record would reach beyond the part of the page in use.
    #[error("a record that reaches beyond its packet")]
    TooLong,
}

/// A record's header and extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    class: u32,
    /// ns, completed.
    pub(crate) time_ns: u64,
    /// Bytes.
    pub(crate) size: usize,
}

impl EventTable {
    /// A table of `events`; of two with one number the later counts.
    pub fn new(events: impl IntoIterator<Item = EventClass>) -> Self {
        let mut table = Self::default();
        for event in events {
            table.insert(event);
        }
        table
    }

    /// Adds a class.
    pub fn insert(&mut self, event: EventClass) {
        let layout = &event.layout;
        let counts = layout
            .tail()
            .map(|field| (field.offset() as usize, field.ty.unit()));
        let id = usize::from(event.id.0);
        let class = Class {
            constant: layout.constant_size().unwrap_or(0) as usize,
            counts: counts.collect(),
            event,
        };
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, 0);
        }
        self.classes.push(class);
        self.by_id[id] = self.classes.len() as u32;
    }

    /// Gives its records the frames that were found in copies of their stacks.
    pub(crate) fn set_unwound(&mut self, unwound: Unwound) {
        self.unwound = Some(unwound);
    }

    /// The class of that number.
    pub fn get(&self, id: EventId) -> Option<&EventClass> {
        Some(&self.classes[self.index(id.0)?].event)
    }

    /// All classes, in order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = &EventClass> {
        self.classes.iter().map(|class| &class.event)
    }

    fn index(&self, id: u16) -> Option<usize> {
        (*self.by_id.get(usize::from(id))? as usize).checked_sub(1)
    }

    /// The record at the start of `bytes`, which end with the packet's content; `previous_ns` is the time of the record
    /// before it in the packet, or the packet's begin.
    pub fn record<'a>(&'a self, bytes: &'a [u8], cpu: u32, previous_ns: u64) -> Result<Record<'a>, Damage> {
        let extent = self.extent(bytes, previous_ns)?;
        self.at(extent, bytes, cpu).ok_or(Damage::TooLong)
    }

    /// Finds how far the record at the start of `bytes` reaches, and its time.
    pub(crate) fn extent(&self, bytes: &[u8], previous_ns: u64) -> Result<Extent, Damage> {
        let header = u64::from_le_bytes(*bytes.first_chunk().ok_or(Damage::TooLong)?);
        let id = header as u16;
        let class = self.index(id).ok_or(Damage::UnknownEvent(id))?;
        let size = self.classes[class].size(bytes).ok_or(Damage::TooLong)?;
        if size > bytes.len() {
            return Err(Damage::TooLong);
        }
        Ok(Extent {
            class: class as u32,
            time_ns: complete(header >> 16, previous_ns),
            size,
        })
    }

    /// The record that `extent` found in the same `bytes`.
    pub(crate) fn at<'a>(&'a self, extent: Extent, bytes: &'a [u8], cpu: u32) -> Option<Record<'a>> {
        let bytes = bytes.get(..extent.size)?;
        let context = bytes.get(8..PAYLOAD as usize)?;
        Some(Record {
            time_ns: extent.time_ns,
            cpu,
            pid: u32::from_le_bytes(*context.first_chunk()?),
            tid: u32::from_le_bytes(*context.last_chunk()?),
            event: &self.classes.get(extent.class as usize)?.event,
            bytes,
            unwound: self.unwound.as_ref(),
        })
    }
}

impl Class {
    fn size(&self, bytes: &[u8]) -> Option<usize> {
        if self.constant != 0 {
            return Some(self.constant);
        }
        let mut end = self.event.layout.fixed_end() as usize;
        for (offset, unit) in &self.counts {
            let count = bytes.get(*offset..)?.first_chunk()?;
            end += usize::from(u16::from_le_bytes(*count)) * unit;
        }
        Some(end.next_multiple_of(8))
    }
}

/// Completes a 48-bit time: times in a packet never run backwards, so a smaller low part means that 2^48 ns (78 hours) went by.
fn complete(low: u64, previous_ns: u64) -> u64 {
    let mask = (1 << TIME_BITS) - 1;
    let time = (previous_ns & !mask) | low;
    if time < previous_ns {
        time.wrapping_add(1 << TIME_BITS)
    } else {
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_completed_across_the_48th_bit() {
        let begin = (5 << 48) | 0xffff_ffff_fff0;
        assert_eq!(complete(0xffff_ffff_fff8, begin), begin + 8);
        assert_eq!(complete(8, begin), (6 << 48) | 8);
    }
}
