//! A record: an event class, its context, and bytes that the class's layout explains.

use crate::event::EventClass;
use crate::layout::{Field, FieldPlace, FieldType};
use crate::unwound::{Key, Unwound};
use crate::value::{StackCopy, Value, ValueContext};

/// A record, borrowed from the page it lies in.
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
    /// The class of the record's event.
    pub event: &'a EventClass,
    /// The whole record, header included: offsets of a layout count from its start.
    pub bytes: &'a [u8],
    /// The frames that were found in copies of stacks.
    pub unwound: Option<&'a Unwound>,
    /// The part of a copied stack that other records have, behind this one's ([`crate::stack_pieces`]).
    pub rest: &'a [u8],
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
        let found = self
            .unwound
            .filter(|_| matches!(field.ty, FieldType::StackCopy { .. }))
            .and_then(|unwound| unwound.get(self.key()));
        let found = found.map(|frames| frames.shown(&field.ty));
        let beside = ValueContext {
            time_ns: self.time_ns,
            ..ValueContext::default()
        };
        let read = || {
            bytes.map_or(Value::Missing, |bytes| {
                Value::read_beside(&field.ty, bytes, beside)
            })
        };
        match found.map_or_else(read, Value::Stack) {
            // Its addresses mean something only in the memory that this process had then.
            Value::Stack(frames)
                if frames.mode.is_none() || matches!(field.ty, FieldType::StackCopy { .. }) =>
            {
                Value::Stack(frames.of(self.pid, self.time_ns))
            }
            value => value,
        }
    }

    /// Key under which its unwound frames are found.
    pub fn key(&self) -> Key {
        (self.cpu, self.time_ns, self.tid)
    }

    /// The copy of the process's stack that the record holds, the longest where there are several.
    pub fn stack_copy(&self) -> Option<StackCopy<'a>> {
        let copies = self
            .event
            .layout
            .fields()
            .iter()
            .filter(|field| matches!(field.ty, FieldType::StackCopy { .. }));
        let copy = copies
            .filter_map(|field| StackCopy::read(self.tail(field)?))
            .max_by_key(|copy| copy.stack.len())?;
        Some(StackCopy {
            rest: self.rest,
            ..copy
        })
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
        Some(usize::from(u16::from_le_bytes(*count)) * field.ty.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventId;
    use crate::layout::Layout;

    fn class() -> EventClass {
        EventClass {
            id: EventId(1),
            name: "a:b".to_owned(),
            layout: Layout::new([("ustack".to_owned(), FieldType::StackCopy { max: 64, shown: None })]),
            kind: "tracepoint".to_owned(),
            action: None,
            print: None,
        }
    }

    /// A record whose copy holds these words.
    fn bytes(class: &EventClass, words: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; class.layout.fixed_end() as usize];
        let at = class.layout.fields()[0].offset() as usize;
        bytes[at..at + 2].copy_from_slice(&(words.len() as u16).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    fn record<'a>(class: &'a EventClass, bytes: &'a [u8], unwound: Option<&'a Unwound>) -> Record<'a> {
        Record {
            time_ns: 50,
            cpu: 1,
            pid: 7,
            tid: 8,
            event: class,
            bytes,
            unwound,
            rest: &[],
        }
    }

    fn shown(record: &Record<'_>) -> (Vec<u64>, bool) {
        match record.get("ustack") {
            Some(Value::Stack(frames)) => {
                assert_eq!((frames.pid, frames.time_ns), (7, 50));
                (frames.iter().collect(), frames.truncated)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_copy_is_read_as_the_frames_that_were_found_in_it() {
        let class = class();
        let bytes_of = bytes(&class, &[0x40_1000, 0x7ffe_0000, 0x7ffe_0040, 0, 1, 2]);
        let plain = record(&class, &bytes_of, None);
        let copy = plain.stack_copy().unwrap();
        let mut stack = 1u64.to_le_bytes().to_vec();
        stack.extend(2u64.to_le_bytes());
        let wanted = StackCopy {
            ip: 0x40_1000,
            sp: 0x7ffe_0000,
            bp: 0x7ffe_0040,
            taken: 0,
            stack: &stack,
            rest: &[],
        };
        assert_eq!(copy, wanted);
        assert_eq!(
            shown(&plain),
            (vec![0x40_1000], true),
            "only the innermost is known"
        );

        let mut unwound = Unwound::default();
        unwound.insert(plain.key(), &[0x40_1000, 0x40_2000], false);
        let read = Unwound::parse(&unwound.to_text()).unwrap();
        assert_eq!(read, unwound);
        assert_eq!(
            shown(&record(&class, &bytes_of, Some(&read))),
            (vec![0x40_1000, 0x40_2000], false)
        );
        assert_eq!(read.truncated(), 0);
        assert!(Unwound::parse("{").is_err());
        let strange = Unwound::parse(r#"{"stacks":[],"records":[[1,50,8,3]]}"#).unwrap();
        assert!(strange.is_empty());
    }

    #[test]
    fn an_empty_copy_is_an_empty_stack() {
        let class = class();
        for words in [&[][..], &[1], &[1, 2], &[1, 2, 3]] {
            let bytes = bytes(&class, words);
            let record = record(&class, &bytes, None);
            assert_eq!(record.stack_copy(), None);
        }
        let bytes = bytes(&class, &[]);
        assert_eq!(shown(&record(&class, &bytes, None)), (Vec::new(), false));
    }
}
