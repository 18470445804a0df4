//! From bytes in a page to records: finds the class, checks the bounds, completes the time; fields are `record`'s matter.

use crate::event::{EventClass, EventId};
use crate::layout::PAYLOAD;
use crate::record::Record;
use crate::stack_pieces::{CLASS, LONG, PIECE};
use crate::unwound::Unwound;
use kestrel_layout::record::TIME_BITS;
use std::sync::LazyLock;

/// Stack pieces, which every trace may have.
static PIECES: LazyLock<Class> = LazyLock::new(|| Class::new(CLASS.clone()));

/// The event classes of a trace, found by number. Pieces of stacks ([`crate::stack_pieces`]) are found, too, though no class of the trace's.
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// Index of the class; none of a piece of a stack.
    class: Option<u32>,
    /// ns, completed.
    pub(crate) time_ns: u64,
    /// Size of the record in bytes.
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
        let id = usize::from(event.id.0);
        let class = Class::new(event);
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

    /// Frames found in copies of stacks.
    pub(crate) fn unwound(&self) -> Option<&Unwound> {
        self.unwound.as_ref()
    }

    /// The class of that number.
    pub fn get(&self, id: EventId) -> Option<&EventClass> {
        Some(&self.classes[self.index(id.0)?].event)
    }

    /// Whether all records of that number are equally long, whatever their fields hold.
    pub(crate) fn is_constant(&self, id: u16) -> bool {
        let class = self.index(id).and_then(|index| self.classes.get(index));
        class.is_some_and(|class| class.constant != 0)
    }

    /// All classes, in order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = &EventClass> {
        self.classes.iter().map(|class| &class.event)
    }

    #[inline]
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
    #[inline(always)]
    pub(crate) fn extent(&self, bytes: &[u8], previous_ns: u64) -> Result<Extent, Damage> {
        let header = u64::from_le_bytes(*bytes.first_chunk().ok_or(Damage::TooLong)?);
        let id = header as u16;
        let index = match id {
            piece if piece == PIECE.0 => None,
            id => Some(self.index(id).ok_or(Damage::UnknownEvent(id))? as u32),
        };
        let class = self.class(index).ok_or(Damage::UnknownEvent(id))?;
        let size = class.size(bytes).ok_or(Damage::TooLong)?;
        if size > bytes.len() {
            return Err(Damage::TooLong);
        }
        Ok(Extent {
            class: index,
            time_ns: complete(header >> 16, previous_ns),
            size,
        })
    }

    /// The record that `extent` found in the same `bytes`.
    #[inline(always)]
    pub(crate) fn at<'a>(&'a self, extent: Extent, bytes: &'a [u8], cpu: u32) -> Option<Record<'a>> {
        let bytes = bytes.get(..extent.size)?;
        let context = bytes.get(8..PAYLOAD as usize)?;
        Some(Record {
            time_ns: extent.time_ns,
            cpu,
            pid: u32::from_le_bytes(*context.first_chunk()?),
            tid: u32::from_le_bytes(*context.last_chunk()?),
            event: &self.class(extent.class)?.event,
            bytes,
            unwound: self.unwound.as_ref(),
            rest: &[],
        })
    }

    /// The class of that index, of pieces of stacks without one.
    fn class(&self, index: Option<u32>) -> Option<&Class> {
        index.map_or(Some(&*PIECES), |index| self.classes.get(index as usize))
    }
}

impl Extent {
    /// Whether it is a piece of a stack.
    pub(crate) fn is_stack_piece(&self) -> bool {
        self.class.is_none()
    }
}

impl Class {
    fn new(event: EventClass) -> Self {
        let layout = &event.layout;
        let counts = layout
            .tail()
            .map(|field| (field.offset() as usize, field.ty.unit()));
        let constant = match event.is_long() {
            true => LONG,
            false => layout.constant_size().unwrap_or(0),
        };
        Self {
            constant: constant as usize,
            counts: counts.collect(),
            event,
        }
    }

    #[inline]
    fn size(&self, bytes: &[u8]) -> Option<usize> {
        match self.constant {
            0 => self.variable_size(bytes),
            size => Some(size),
        }
    }

    fn variable_size(&self, bytes: &[u8]) -> Option<usize> {
        let mut end = self.event.layout.fixed_end() as usize;
        for (offset, unit) in &self.counts {
            let count = bytes.get(*offset..)?.first_chunk()?;
            end += usize::from(u16::from_le_bytes(*count)) * unit;
        }
        Some(end.next_multiple_of(8))
    }
}

/// Completes a 48-bit time: times in a packet never run backwards, so a smaller low part means that 2^48 ns (78 hours) went by.
#[inline]
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
