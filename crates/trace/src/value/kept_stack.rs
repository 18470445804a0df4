//! Stacks kept beyond the record that they were read from.

use super::{Frames, Value};

/// A stack of a record, by its field.
#[derive(Clone, Debug)]
pub struct KeptStack {
    /// The field's name.
    pub field: String,
    /// The stack without its addresses, and those; none where it could not be read.
    frames: Option<(Frames<'static>, Box<[u8]>)>,
}

impl KeptStack {
    /// The stack that a field has as its value.
    pub fn new(field: &str, value: Value<'_>) -> Self {
        Self {
            field: field.to_owned(),
            frames: match value {
                Value::Stack(frames) => Some((Frames { bytes: &[], ..frames }, frames.bytes.into())),
                _ => None,
            },
        }
    }

    /// The frames; none where the stack could not be read.
    pub fn frames(&self) -> Option<Frames<'_>> {
        let (frames, bytes) = self.frames.as_ref()?;
        Some(Frames { bytes, ..*frames })
    }

    /// The stack as its field's value.
    pub fn value(&self) -> Value<'_> {
        self.frames().map_or(Value::Missing, Value::Stack)
    }
}
