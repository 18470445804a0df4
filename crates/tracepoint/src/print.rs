//! Print formats: text with names of fields in braces.

use crate::value::{Field, Kind, Value};
use std::fmt;

/// A part of a print format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Field { name: &'a str, style: Style },
}

/// How a field is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) is_hexadecimal: bool,
    /// `0x` before it.
    pub(crate) is_marked: bool,
    /// Filled with zeroes instead of spaces.
    pub(crate) is_filled: bool,
    pub(crate) width: usize,
}

/// The parts of a print format. `{{` and `}}` are braces; the macro has checked the rest.
pub(crate) fn pieces(format: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        let brace = &from[..1];
        if from[1..].starts_with(brace) {
            pieces.push(Piece::Text(&rest[..=at]));
            rest = &from[2..];
            continue;
        }
        pieces.push(Piece::Text(before));
        let Some((inner, behind)) = from[1..].split_once('}') else {
            return pieces;
        };
        let (name, style) = inner.split_once(':').unwrap_or((inner, ""));
        pieces.push(Piece::Field {
            name,
            style: Style::parse(style),
        });
        rest = behind;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    pieces
}

impl Style {
    fn parse(text: &str) -> Self {
        let is_hexadecimal = text.ends_with('x');
        let text = text.trim_end_matches('x');
        let width = text.trim_start_matches('#');
        Self {
            is_hexadecimal,
            is_marked: text.starts_with('#'),
            is_filled: width.starts_with('0'),
            width: width.parse().unwrap_or(0),
        }
    }
}

/// A field's value in its style.
pub(crate) fn value(
    f: &mut fmt::Formatter<'_>,
    field: &Field,
    value: &Value<'_>,
    style: Style,
) -> fmt::Result {
    let size = match field.kind {
        Kind::Integer { size, .. } => usize::from(size),
        _ => 1,
    };
    let Style { width, .. } = style;
    match (style.is_hexadecimal, value.bits(size)) {
        (true, Some(bits)) => match (style.is_marked, style.is_filled) {
            (true, true) => write!(f, "{bits:#0width$x}"),
            (true, false) => write!(f, "{bits:#width$x}"),
            (false, true) => write!(f, "{bits:0width$x}"),
            (false, false) => write!(f, "{bits:width$x}"),
        },
        _ => match (field.kind, value) {
            (Kind::Array { size, signed, .. }, Value::Elements(bytes)) => elements(f, bytes, (size, signed)),
            (_, Value::Unsigned(value)) if style.is_filled => write!(f, "{value:0width$}"),
            (_, Value::Signed(value)) if style.is_filled => write!(f, "{value:0width$}"),
            (_, value) => write!(f, "{value:>width$}"),
        },
    }
}

/// `{1,-2,3}`.
fn elements(f: &mut fmt::Formatter<'_>, bytes: &[u8], (size, signed): (u8, bool)) -> fmt::Result {
    f.write_str("{")?;
    for (at, element) in bytes.chunks_exact(usize::from(size)).enumerate() {
        let mut word = [0; 8];
        let is_negative = signed && element.last().is_some_and(|byte| byte & 0x80 != 0);
        if is_negative {
            word = [0xff; 8];
        }
        word[..element.len()].copy_from_slice(element);
        let comma = if at == 0 { "" } else { "," };
        match signed {
            true => write!(f, "{comma}{}", i64::from_le_bytes(word))?,
            false => write!(f, "{comma}{}", u64::from_le_bytes(word))?,
        }
    }
    f.write_str("}")
}
