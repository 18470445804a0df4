//! Print formats that events bring along: text with names of fields in braces, `{status} in {took:#x} us`; `{{` and `}}` are braces.
//!
//! They are those of kestrel-tracepoint, whose records look so inside of their program, too.

use super::{decimal, value};
use crate::layout::{FieldType, Layout};
use crate::symbol::Symbols;
use crate::value::Value;

/// How an event's record is printed, and which fields are its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFormat {
    /// The format.
    pub text: String,
    /// All fields of the event, those that the format does not name, too.
    pub fields: Vec<String>,
}

impl OwnFormat {
    /// The format for records of a layout: what a handler records beside the event's own fields stands behind them. None where a field that the format names is missing.
    pub fn of(&self, layout: &Layout) -> Option<String> {
        let has = |name: &str| layout.fields().iter().any(|field| field.name == name);
        let whole = pieces(&self.text).iter().all(|piece| {
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

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Field { name: &'a str, style: Style },
}

/// How a field is printed: `[#][0][WIDTH][x]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    hexadecimal: bool,
    prefix: bool,
    zeroes: bool,
    width: usize,
}

/// More columns than this no format may ask for: it is a program's word.
const WIDEST: usize = 256;

/// The parts of a format. What is not one is text.
pub(crate) fn pieces(format: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut text, mut at) = (0, 0);
    let bytes = format.as_bytes();
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (brace @ (b'{' | b'}'), Some(next)) if *next == brace => {
                pieces.push(Piece::Text(&format[text..=at]));
                at += 2;
                text = at;
            }
            (b'{', _) => {
                let Some((inner, _)) = format[at + 1..].split_once('}') else {
                    break;
                };
                pieces.push(Piece::Text(&format[text..at]));
                let (name, style) = inner.split_once(':').unwrap_or((inner, ""));
                let style = Style::read(style);
                pieces.push(Piece::Field { name, style });
                at += inner.len() + 2;
                text = at;
            }
            _ => at += 1,
        }
    }
    pieces.push(Piece::Text(&format[text..]));
    pieces.retain(|piece| *piece != Piece::Text(""));
    pieces
}

impl Style {
    fn read(text: &str) -> Self {
        let (digits, hexadecimal) = text
            .strip_suffix('x')
            .map_or((text, false), |digits| (digits, true));
        let (digits, prefix) = digits
            .strip_prefix('#')
            .map_or((digits, false), |digits| (digits, true));
        Self {
            hexadecimal,
            prefix,
            zeroes: digits.starts_with('0'),
            width: digits.parse().unwrap_or(0).min(WIDEST),
        }
    }

    /// Appends a value of a field of this type.
    pub(crate) fn write(self, ty: &FieldType, it: Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
        let begin = out.len();
        match (self.bits(it), it) {
            (Some(bits), _) => {
                let prefix = if self.prefix { "0x" } else { "" };
                let width = if self.zeroes { self.width } else { 0 };
                let width = width.saturating_sub(prefix.len());
                out.extend_from_slice(format!("{prefix}{bits:0width$x}").as_bytes());
            }
            (None, Value::Bool(it)) => decimal(u8::from(it), out),
            (None, Value::Text(bytes)) if matches!(ty, FieldType::Bytes { .. }) => {
                let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
                out.extend_from_slice(format!("{{{}}}", bytes.join(",")).as_bytes());
            }
            (None, Value::Array(elements)) => {
                out.push(b'{');
                for (at, element) in elements.iter().enumerate() {
                    super::separate(at, b",", out);
                    value(element, symbols, out);
                }
                out.push(b'}');
            }
            (None, it) => value(it, symbols, out),
        }
        let number = matches!(it, Value::Signed { .. } | Value::Unsigned { .. });
        let missing = self.width.saturating_sub(out.len() - begin);
        let at = begin + usize::from(self.zeroes && out.get(begin) == Some(&b'-'));
        let fill = if self.zeroes && number { b'0' } else { b' ' };
        out.splice(at..at, std::iter::repeat_n(fill, missing));
    }

    /// The digits' bits of a number that is printed in hexadecimal.
    fn bits(self, it: Value<'_>) -> Option<u64> {
        match it {
            _ if !self.hexadecimal => None,
            Value::Unsigned { value, .. } => Some(value),
            Value::Signed { value, size, .. } => {
                Some(value.cast_unsigned() & (u64::MAX >> (64 - u32::from(size.clamp(1, 8)) * 8)))
            }
            Value::Bool(value) => Some(u64::from(value)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Base;

    fn text(style: &str, it: Value<'_>) -> String {
        let mut out = Vec::new();
        let ty = FieldType::Bool;
        Style::read(style).write(&ty, it, &Symbols::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn formats_fall_into_pieces() {
        let field = |name, style| Piece::Field {
            name,
            style: Style::read(style),
        };
        assert_eq!(
            pieces("{a}: {{x}} {b:#x}é"),
            [
                field("a", ""),
                Piece::Text(": {"),
                Piece::Text("x}"),
                Piece::Text(" "),
                field("b", "#x"),
                Piece::Text("é"),
            ]
        );
        for strange in [
            "{",
            "}",
            "{a",
            "{}",
            "{:}",
            "{é}",
            "a}{b",
            "{a:999999999999999999999}",
        ] {
            pieces(strange);
        }
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
