//! Values of fields in the styles of print formats, which are `kestrel_layout::format`'s.

use crate::value::{Field, FieldKind, Value};
use core::fmt;
use kestrel_layout::format::{Shown, Style};

/// A field's value in its style.
pub(crate) fn value(
    f: &mut fmt::Formatter<'_>,
    field: &Field,
    value: &Value<'_>,
    style: Style,
) -> fmt::Result {
    let shown = match (*value, field.kind) {
        (Value::Unsigned(value), _) => Shown::Unsigned(value),
        (Value::Signed(value), FieldKind::Integer { size, .. }) => Shown::Signed(value, size),
        (Value::Signed(value), _) => Shown::Signed(value, 8),
        (Value::Float(value), _) => Shown::Float(value),
        (Value::Bool(value), _) => Shown::Bool(value),
        (Value::Text(text), _) => Shown::Text(text),
        (Value::Elements(bytes), FieldKind::Array { size, signed, .. }) => {
            Shown::Elements { bytes, size, signed }
        }
        (Value::Bytes(bytes) | Value::Elements(bytes), _) => Shown::Bytes(bytes),
    };
    shown.write(f, style)
}
