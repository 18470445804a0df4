//! Event specifications as text: as they were typed, with the kind that was left out, and what is wrong with their shape.

use crate::error::Error;
use kestrel_compiler::lang::ast::{EventPart, EventSpec};

/// A specification as typed.
pub fn text_of(spec: &EventSpec) -> String {
    let part = |part: &EventPart| match part.offset {
        Some(offset) => format!("{}+{offset:#x}", part.text),
        None => part.text.clone(),
    };
    spec.parts.iter().map(part).collect::<Vec<_>>().join(":")
}

pub(super) fn with_kind(spec: &EventSpec, kind: &str) -> EventSpec {
    let mut parts = vec![EventPart {
        text: kind.to_owned(),
        offset: None,
        span: spec.span,
    }];
    parts.extend(spec.parts.iter().cloned());
    EventSpec {
        parts,
        span: spec.span,
    }
}

impl Error {
    /// An event specification with the wrong number of parts.
    pub(crate) fn wrong_shape(spec: &EventSpec, shape: &str) -> Self {
        Self::WrongShape {
            wanted: text_of(spec),
            shape: shape.to_owned(),
        }
    }
}
