//! A recorded event as the checker's context: its fields with their types, each at a virtual offset that says which field it is.

use kestrel_compiler::context::{Context, Source, ValueType};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::FieldType;

/// Bytes of the virtual context that each field has to itself.
///
/// Fields of variable length have no constant offset in a record, so no field is given its own: the field with index `i` begins at `i * STRIDE`.
pub(crate) const STRIDE: u32 = 1 << 16;

/// The context of an event class.
pub(crate) fn of(event: &EventClass) -> Context {
    Context::recorded(event, |index, field| {
        let offset = u32::try_from(index).ok()?.checked_mul(STRIDE)?;
        let offset = i32::try_from(offset).ok()?.cast_unsigned();
        value(&field.ty, offset)
    })
}

/// The type of a field for the checker, and where it finds it; none for stacks, numbers with fractions and what is made of several, which expressions cannot handle.
fn value(ty: &FieldType, offset: u32) -> Option<(ValueType, Source)> {
    let whole = |bytes: u32| Source::ContextArray { offset, bytes };
    // With room for the NUL that its bytes in the record do not have.
    if let FieldType::String { max } | FieldType::Bytes { max } = ty {
        return Some((ValueType::CharArray { size: max + 1 }, whole(max + 1)));
    }
    let known = ValueType::recorded(ty)?;
    let source = match ty {
        FieldType::CharArray { .. } | FieldType::InlineString { .. } | FieldType::Array { .. } => {
            whole(ty.fixed_size())
        }
        _ => Source::Context {
            offset,
            size: ty.fixed_size() as u8,
        },
    };
    Some((known, source))
}
