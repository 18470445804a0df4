//! Fields of a tracepoint's formatted entry, from its format file.

use super::call_arguments::argument_type;
use super::field_type::value_type;
use super::syscall;
use kestrel_compiler::context::{EventField, Source, ValueType};
use kestrel_kernel::tracefs::{Field, Format, Location};

/// All fields of an entry. Those that a record cannot hold yet (dynamic arrays of numbers) are left out of it.
pub(super) fn fields(format: &Format, user_pointers: bool) -> Vec<EventField> {
    format
        .fields
        .iter()
        .filter_map(|field| match user_pointers && syscall::is_withheld(field) {
            true => Some(syscall::withheld(format, field)),
            false => event_field(format, field, user_pointers),
        })
        .collect()
}

fn event_field(format: &Format, field: &Field, user_pointers: bool) -> Option<EventField> {
    let ty = if user_pointers {
        argument_type(format, field)?
    } else {
        value_type(format, field, false)?
    };
    let source = match (&field.location, &ty) {
        (Location::DataLoc, ValueType::String) => Source::DataLocation { offset: field.offset },
        (Location::Inline, ValueType::CharArray { .. } | ValueType::Array { .. }) => Source::ContextArray {
            offset: field.offset,
            bytes: field.size,
        },
        (Location::Inline, _) => Source::Context {
            offset: field.offset,
            // An `int` of a system call stands in the low bytes of its register-wide place.
            size: match ty {
                ValueType::Integer { size, .. } if u32::from(size) < field.size => size,
                _ => u8::try_from(field.size).ok()?,
            },
        },
        _ => return None,
    };
    Some(EventField {
        name: field.name.clone(),
        ty,
        source,
        recorded: true,
    })
}
