//! A record in the making, as an event class has it; and who makes them.

use crate::event::EventClass;
use crate::layout::{Field, FieldPlace, PAYLOAD};
use crate::packet::CAPACITY;
use std::io;

/// The records of a stream, one by one, in order of time as far as the stream has them so.
pub(super) trait Events: std::fmt::Debug + Send {
    /// Makes the next record; false at the end. One without bytes only says what was lost.
    ///
    /// # Errors
    /// Errors of the system.
    fn next(&mut self, draft: &mut Draft) -> io::Result<bool>;

    /// Damage met since the last call, which is not among the records.
    fn damage(&mut self) -> Option<String>;
}

/// A record in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) time_ns: u64,
    pub(super) cpu: u32,
    /// Events of its stream that were lost before it.
    pub(super) lost: u64,
    /// Packets of its stream that are absent before it.
    pub(super) absent: u64,
    bytes: Vec<u8>,
    /// Contents of fields of variable length: the field's index, and how much of `held`.
    tail: Vec<(usize, usize)>,
    held: Vec<u8>,
}

impl Draft {
    /// Says only that events were lost.
    pub(super) fn only_lost(&mut self, time_ns: u64, cpu: u32, lost: u64) {
        (self.time_ns, self.cpu, self.lost, self.absent) = (time_ns, cpu, lost, 0);
        self.bytes.clear();
    }

    /// Begins a record of a class, whose fields are zeroes until they are set.
    pub(super) fn begin(&mut self, class: &EventClass, time_ns: u64, cpu: u32, (pid, tid): (u32, u32)) {
        (self.time_ns, self.cpu, self.lost, self.absent) = (time_ns, cpu, 0, 0);
        self.bytes.clear();
        let header = u64::from(class.id.0) | time_ns << 16;
        self.bytes.extend_from_slice(&header.to_le_bytes());
        self.bytes.extend_from_slice(&pid.to_le_bytes());
        self.bytes.extend_from_slice(&tid.to_le_bytes());
        self.bytes.resize(class.layout.fixed_end() as usize, 0);
        self.tail.clear();
        self.held.clear();
    }

    /// Says whose record it is, where that is known only when it is read.
    pub(super) fn of_thread(&mut self, (pid, tid): (u32, u32)) {
        if let Some(place) = self.bytes.get_mut(8..PAYLOAD as usize) {
            place[..4].copy_from_slice(&pid.to_le_bytes());
            place[4..8].copy_from_slice(&tid.to_le_bytes());
        }
    }

    /// Sets a field of fixed length; the rest of a longer one is left zero.
    pub(super) fn set(&mut self, field: &Field, value: &[u8]) {
        let FieldPlace::Fixed { offset } = field.place else {
            return;
        };
        let size = value.len().min(field.ty.fixed_size() as usize);
        let at = offset as usize;
        if let Some(place) = self.bytes.get_mut(at..at + size) {
            place.copy_from_slice(&value[..size]);
        }
    }

    /// Appends to what a field of variable length holds; one field after the other.
    pub(super) fn hold(&mut self, index: usize, value: &[u8]) {
        self.held.extend_from_slice(value);
        match self.tail.last_mut() {
            Some((last, length)) if *last == index => *length += value.len(),
            _ => self.tail.push((index, value.len())),
        }
    }

    /// Ends the record: what is variable goes behind the rest. False where some of it had no room.
    pub(super) fn end(&mut self, class: &EventClass) -> bool {
        let mut whole = true;
        let fields = class.layout.fields();
        for field in class.layout.tail() {
            let mut at = 0;
            let held = self.tail.iter().find_map(|(index, length)| {
                let from = at;
                at += length;
                let is = fields.get(*index).is_some_and(|it| it.offset() == field.offset());
                is.then_some(from..from + length)
            });
            let Some(held) = held else { continue };
            let unit = field.ty.unit();
            let room = (CAPACITY as usize).saturating_sub(self.bytes.len());
            let most = room.min(usize::from(u16::MAX)) / unit;
            let count = held.len() / unit;
            whole &= count <= most;
            let count = count.min(most);
            let place = field.offset() as usize;
            if let Some(place) = self.bytes.get_mut(place..place + 2) {
                place.copy_from_slice(&(count as u16).to_le_bytes());
                self.bytes
                    .extend_from_slice(&self.held[held.start..held.start + count * unit]);
            }
        }
        let length = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(length, 0);
        whole
    }

    /// Bytes of the record.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether its record was ended and is one.
    pub(super) fn is_record(&self) -> bool {
        self.bytes.len() >= PAYLOAD as usize
    }

    /// Puts a record here that was made before.
    pub(super) fn put(&mut self, time_ns: u64, cpu: u32, lost: u64, bytes: &[u8]) {
        (self.time_ns, self.cpu, self.lost, self.absent) = (time_ns, cpu, lost, 0);
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }
}
