//! An event that was recorded, as a context: it is compiled for as an event of a kernel is; where each field lies is said by who keeps the records.

use super::{Context, EventField, EventNumber, ProgramKind, Source, ValueType};
use kestrel_trace::event::EventClass;
use kestrel_trace::event_kind::{self, SeenBy};
use kestrel_trace::layout::{EventName, Field, FieldType};

impl Context {
    /// The context of an event class; `source` says of each field, by its place among them, where programs find it: none for those that they have nothing of.
    pub fn recorded(
        event: &EventClass,
        source: impl Fn(usize, &Field) -> Option<(ValueType, Source)>,
    ) -> Self {
        let fields = event.layout.fields().iter().enumerate();
        let fields = fields.filter_map(|(index, field)| {
            let (ty, source) = source(index, field)?;
            Some(EventField {
                name: field.name.clone(),
                ty,
                source,
                recorded: true,
            })
        });
        Self {
            function: function(event),
            number: EventNumber::Constant(event.id.0),
            fields: fields.collect(),
            ..Self::new(event.name.clone(), program(&event.kind))
        }
    }
}

/// The kind of program that saw an event of this kind.
fn program(kind: &str) -> ProgramKind {
    // A recording may have kinds of later versions.
    match event_kind::find(kind).map_or(SeenBy::Tracepoint, |kind| kind.seen_by) {
        SeenBy::Kprobe => ProgramKind::Kprobe,
        SeenBy::Kretprobe => ProgramKind::Kretprobe,
        SeenBy::Fentry => ProgramKind::Fentry,
        SeenBy::Fexit => ProgramKind::Fexit,
        SeenBy::PerfEvent => ProgramKind::PerfEvent,
        SeenBy::Tracepoint | SeenBy::Session => ProgramKind::Tracepoint,
    }
}

/// The function that an event is about: `vfs_read` of `kprobe:vfs_read`.
fn function(event: &EventClass) -> Option<String> {
    let kind = event_kind::find(&event.kind).filter(|kind| kind.subject.is_function());
    kind.map(|_| EventName::Function.of(&event.name).to_owned())
}

impl ValueType {
    /// The type of a field of fixed size that is a number, a text or an array of numbers; none of others.
    pub fn recorded(ty: &FieldType) -> Option<Self> {
        Some(match ty {
            FieldType::Integer { size, signed, base } => Self::Integer {
                size: *size,
                signed: *signed,
                base: *base,
            },
            FieldType::Bool => Self::Bool,
            FieldType::Pointer { .. } => Self::Pointer { user: false },
            FieldType::Enumeration { size, signed, names } => Self::Enumeration {
                size: *size,
                signed: *signed,
                names: names.clone(),
            },
            FieldType::Flags { size, names } => Self::Flags {
                size: *size,
                names: names.clone(),
            },
            FieldType::CharArray { size } => Self::CharArray { size: *size },
            FieldType::InlineString { max } => Self::CharArray { size: max + 2 },
            FieldType::Array { element, count } => Self::Array {
                element: Box::new(Self::recorded(element).filter(Self::is_number)?),
                count: *count,
            },
            FieldType::Float { .. }
            | FieldType::String { .. }
            | FieldType::Bytes { .. }
            | FieldType::Stack { .. }
            | FieldType::StackCopy { .. }
            | FieldType::HeldStack(_)
            | FieldType::Buffer { .. }
            | FieldType::Composite(_)
            | FieldType::Named(_) => return None,
        })
    }

    fn is_number(&self) -> bool {
        !matches!(self, Self::CharArray { .. } | Self::Array { .. })
    }
}
