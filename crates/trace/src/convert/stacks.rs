//! The call chain of a record: its first stack of the kernel and its first one of the process.

use crate::event::EventClass;
use crate::layout::{Field, FieldType, Space};
use crate::record::Record;
use crate::value::{Frames, Value};

/// Call-chain fields of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// Index of the field with the kernel's frames.
    pub(super) kernel: Option<usize>,
    /// Index of the field with the process's.
    pub(super) user: Option<usize>,
}

impl Chain {
    pub(super) fn of(event: &EventClass) -> Self {
        let first = |space| {
            let is = |field: &Field| match field.ty {
                FieldType::Stack { space: found, .. } => found == space,
                FieldType::StackCopy { .. } => space == Space::User,
                _ => false,
            };
            event.layout.fields().iter().position(is)
        };
        Self {
            kernel: first(Space::Kernel),
            user: first(Space::User),
        }
    }

    /// Whether the field of that index is part of it.
    pub(super) fn has(self, index: usize) -> bool {
        self.kernel == Some(index) || self.user == Some(index)
    }

    /// Whether there is none.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The frames of a record, innermost first: the kernel's, the process's.
    pub(super) fn frames<'a>(self, record: &Record<'a>) -> [Option<Frames<'a>>; 2] {
        [self.kernel, self.user].map(|index| {
            let field = record.event.layout.fields().get(index?)?;
            match record.value(field) {
                Value::Stack(frames) if !frames.is_empty() => Some(frames),
                _ => None,
            }
        })
    }
}
