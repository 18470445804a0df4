//! Print formats that events bring along: text with names of fields in braces, `{status} in {took:#x} us`; `{{` and `}}` are braces.
//!
//! The formats are those of kestrel-tracepoint, whose records look so inside of their program, too.

use super::escape::escape;
use super::value;
use crate::layout::{Base, FieldType, Layout};
use crate::symbol::Symbols;
use crate::value::Value;
use kestrel_layout::format::Shown;
pub(crate) use kestrel_layout::format::{Piece, Style, pieces};

/// Print format of an event's record, and its own fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFormat {
    /// Text of the format.
    pub text: String,
    /// All fields of the event, those that the format does not name, too.
    pub fields: Vec<String>,
}

impl OwnFormat {
    /// The format for records of a layout: what a handler records beside the event's own fields stands behind them. None where a field that the format names is missing.
    pub fn of(&self, layout: &Layout) -> Option<String> {
        let has = |name: &str| layout.fields().iter().any(|field| field.name == name);
        let whole = pieces(&self.text).all(|piece| {
            matches!(piece, Piece::Text(_)) || matches!(piece, Piece::Field { name, .. } if has(name))
        });
        let mut text = whole.then(|| self.text.clone())?;
        for field in layout.shown() {
            if !field.ty.is_stack() && !self.fields.contains(&field.name) {
                text.push_str(&format!(" {0}={{{0}}}", field.name));
            }
        }
        Some(text)
    }
}

/// Appends a value of a field of this type in a style.
pub(crate) fn write(style: Style, ty: &FieldType, it: Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    let mut text = String::new();
    match with(ty, it, |shown| shown.write(&mut text, style).is_ok()) {
        Some(true) => out.extend_from_slice(text.as_bytes()),
        // Types that programs' events do not have, or a record that is too short.
        _ => value(it, symbols, out),
    }
}

/// Calls `show` with a value as print formats know it, if they do.
fn with<T>(ty: &FieldType, value: Value<'_>, show: impl FnOnce(Shown<'_>) -> T) -> Option<T> {
    Some(match (value, ty) {
        (
            Value::Unsigned {
                value,
                base: Base::Float,
                ..
            },
            _,
        ) => show(Shown::Float(f64::from_bits(value))),
        (Value::Unsigned { value, .. }, _) => show(Shown::Unsigned(value)),
        (Value::Signed { value, size, .. }, _) => show(Shown::Signed(value, size)),
        (Value::Pointer { address, .. }, _) => show(Shown::Unsigned(address)),
        (Value::Bool(value), _) => show(Shown::Bool(value)),
        (Value::Float(value), _) => show(Shown::Float(value)),
        (Value::Text(bytes), FieldType::Bytes { .. }) => show(Shown::Bytes(bytes)),
        (Value::Text(bytes), _) => {
            let mut text = Vec::new();
            escape(bytes, &mut text);
            show(Shown::Text(&String::from_utf8_lossy(&text)))
        }
        (Value::Array(elements), FieldType::Array { element, .. }) => match **element {
            FieldType::Integer { size, signed, .. } => show(Shown::Elements {
                bytes: elements.bytes(),
                size,
                signed,
            }),
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(style: &str, it: Value<'_>) -> String {
        let mut out = Vec::new();
        let ty = FieldType::Bool;
        write(Style::read(style), &ty, it, &Symbols::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn styles_are_those_of_the_events_own_lines() {
        let number = |value| Value::Signed {
            value,
            base: Base::Decimal,
            size: 2,
        };
        for (style, value, wanted) in [
            ("", -5, "-5"),
            ("x", -1, "ffff"),
            ("#x", 10, "0xa"),
            ("04x", 10, "000a"),
            ("#06x", 10, "0x000a"),
            ("6", -5, "    -5"),
            ("05", -5, "-0005"),
            ("5x", 10, "    a"),
        ] {
            assert_eq!(text(style, number(value)), wanted, "{style}");
        }
        assert_eq!(text("6", Value::Text(b"ab")), "    ab");
        assert_eq!(text("", Value::Bool(true)), "1");
    }
}
