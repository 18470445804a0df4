//! What did happen, once: an event class, its context, and bytes that the class's layout explains.

use crate::event::EventClass;
use crate::layout::{Field, FieldPlace, FieldType};
use crate::value::Value;

/// One record, borrowed from the page it lies in.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Where it happened.
    pub cpu: u32,
    /// Process (thread group), as user space numbers it.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// What happened.
    pub event: &'a EventClass,
    /// The whole record, header included: offsets of a layout count from its start.
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The fields with their values, in reading order; what only fills room is left out.
    pub fn fields(&self) -> impl Iterator<Item = (&'a Field, Value<'a>)> + use<'a> {
        let record = *self;
        record
            .event
            .layout
            .shown()
            .map(move |field| (field, record.value(field)))
    }

    /// The value of the field of that name.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        let field = self
            .event
            .layout
            .fields()
            .iter()
            .find(|field| field.name == name)?;
        Some(self.value(field))
    }

    /// The value of `field`, which is one of the event's.
    pub fn value(&self, field: &'a Field) -> Value<'a> {
        let bytes = match field.place {
            FieldPlace::Fixed { offset } => self.bytes.get(offset as usize..),
            FieldPlace::Tail { .. } => self.tail(field),
        };
        match bytes.map_or(Value::Missing, |bytes| Value::read(&field.ty, bytes)) {
            // Its addresses mean something only in the memory that this process had then.
            Value::Stack(frames) => Value::Stack(frames.of(self.pid, self.time_ns)),
            value => value,
        }
    }

    /// The elements of a variable field: behind those of the variable fields before it.
    fn tail(&self, wanted: &Field) -> Option<&'a [u8]> {
        let mut at = self.event.layout.fixed_end() as usize;
        for field in self.event.layout.tail() {
            let length = self.tail_length(field)?;
            if field.offset() == wanted.offset() {
                return self.bytes.get(at..at + length);
            }
            at += length;
        }
        None
    }

    fn tail_length(&self, field: &Field) -> Option<usize> {
        let count = self.bytes.get(field.offset() as usize..)?.first_chunk()?;
        let unit = if matches!(field.ty, FieldType::Stack { .. }) {
            8
        } else {
            1
        };
        Some(usize::from(u16::from_le_bytes(*count)) * unit)
    }
}
