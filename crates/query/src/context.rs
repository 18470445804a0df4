//! A recorded event as the compiler's context: its fields with their types, each at a virtual offset that says which field it is.

use kestrel_compiler::context::{Context, EventField, EventNumber, Features, ProgramKind, Source, ValueType};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::{EventName, FieldType, Space};
use std::sync::Arc;

/// Bytes of the virtual context that each field has to itself.
///
/// Fields of variable length have no constant offset in a record, so no field is given its own: the field with index `i` begins at `i * STRIDE`.
pub(crate) const STRIDE: u32 = 1 << 16;

/// The context of an event class.
pub(crate) fn of(event: &EventClass) -> Context {
    let fields = (0u32..)
        .zip(event.layout.fields())
        .filter_map(|(index, field)| {
            let offset = index
                .checked_mul(STRIDE)
                .filter(|offset| i32::try_from(*offset).is_ok())?;
            let (ty, source) = value(&field.ty, offset)?;
            Some(EventField {
                name: field.name.clone(),
                ty,
                source,
                recorded: true,
            })
        })
        .collect();
    Context {
        name: event.name.clone(),
        function: function(event),
        program: ProgramKind::Tracepoint,
        number: EventNumber::Constant(event.id.0),
        selector: None,
        members: Arc::new([]),
        fields,
        arguments: Vec::new(),
        return_value: None,
        registers: Vec::new(),
        remarks: Vec::new(),
        pair: None,
        types: None,
        features: Features::default(),
        direct_loads: false,
        space: Space::Kernel,
        preemptible: false,
    }
}

/// The function that an event is about: `vfs_read` of `kprobe:vfs_read`.
fn function(event: &EventClass) -> Option<String> {
    let of_function = event.kind.contains("probe") || ["fentry", "fexit"].contains(&event.kind.as_str());
    of_function.then(|| EventName::Function.of(&event.name).to_owned())
}

/// The type of a field for the checker, and where it finds it; none for stacks, numbers with fractions and what is made of several, which expressions cannot handle.
fn value(ty: &FieldType, offset: u32) -> Option<(ValueType, Source)> {
    let whole = |bytes: u32| Source::ContextArray { offset, bytes };
    let scalar = |size: u8| Source::Context { offset, size };
    Some(match ty {
        FieldType::Integer { size, .. }
        | FieldType::Enumeration { size, .. }
        | FieldType::Flags { size, .. } => (element(ty)?, scalar(*size)),
        FieldType::Bool => (ValueType::Bool, scalar(1)),
        FieldType::Pointer { .. } => (element(ty)?, scalar(8)),
        FieldType::Text { size } => (ValueType::Text { size: *size }, whole(*size)),
        // With room for the NUL that its bytes in the record do not have.
        FieldType::String { max } | FieldType::Bytes { max } => {
            (ValueType::Text { size: max + 1 }, whole(max + 1))
        }
        FieldType::Array {
            element: inner,
            count,
        } => {
            let ty = ValueType::Array {
                element: Box::new(element(inner)?),
                count: *count,
            };
            (ty, whole(inner.fixed_size().saturating_mul(*count)))
        }
        FieldType::InlineString { max } => (ValueType::Text { size: max + 2 }, whole(max + 2)),
        FieldType::Float { .. }
        | FieldType::Stack { .. }
        | FieldType::StackCopy { .. }
        | FieldType::HeldStack(_)
        | FieldType::Buffer { .. }
        | FieldType::Composite(_)
        | FieldType::Named(_) => return None,
    })
}

/// A type of fixed size that is a number.
fn element(ty: &FieldType) -> Option<ValueType> {
    Some(match ty {
        FieldType::Integer { size, signed, base } => ValueType::Integer {
            size: *size,
            signed: *signed,
            base: *base,
        },
        FieldType::Bool => ValueType::Bool,
        FieldType::Pointer { .. } => ValueType::Pointer { user: false },
        FieldType::Enumeration { size, signed, names } => ValueType::Enumeration {
            size: *size,
            signed: *signed,
            names: names.clone(),
        },
        FieldType::Flags { size, names } => ValueType::Flags {
            size: *size,
            names: names.clone(),
        },
        FieldType::Float { .. }
        | FieldType::Text { .. }
        | FieldType::Array { .. }
        | FieldType::String { .. }
        | FieldType::Bytes { .. }
        | FieldType::Stack { .. }
        | FieldType::StackCopy { .. }
        | FieldType::HeldStack(_)
        | FieldType::InlineString { .. }
        | FieldType::Buffer { .. }
        | FieldType::Composite(_)
        | FieldType::Named(_) => {
            return None;
        }
    })
}
