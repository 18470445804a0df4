//! Print formats: text with names of fields in braces, `{port}`, `{flags:#x}`, `{code:08x}`; and values in the styles that they ask for.

use core::fmt::{self, Write};

/// A part of a print format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Literal text in each line.
    Text(&'a str),
    /// A field's value.
    #[allow(missing_docs, reason = "the fields speak for themselves")]
    Field { name: &'a str, style: Style },
}

/// Print style of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// In hexadecimal digits.
    pub is_hexadecimal: bool,
    /// `0x` before it.
    pub is_marked: bool,
    /// Filled with zeroes instead of spaces.
    pub is_filled: bool,
    /// Columns, at least.
    pub width: usize,
}

/// The parts of a print format.
#[derive(Clone, Debug)]
pub struct Pieces<'a>(&'a str);

/// The parts of a print format. `{{` and `}}` are braces; what follows a brace without its other one is left out.
pub fn pieces(format: &str) -> Pieces<'_> {
    Pieces(format)
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = self.0;
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find(['{', '}']) else {
            self.0 = "";
            return Some(Piece::Text(rest));
        };
        let (before, from) = rest.split_at(at);
        if from.starts_with("{{") || from.starts_with("}}") {
            self.0 = &from[2..];
            return Some(Piece::Text(&rest[..=at]));
        }
        if !before.is_empty() {
            self.0 = from;
            return Some(Piece::Text(before));
        }
        let Some((inner, behind)) = from[1..].split_once('}') else {
            self.0 = "";
            return None;
        };
        self.0 = behind;
        let (name, style) = inner.split_once(':').unwrap_or((inner, ""));
        Some(Piece::Field {
            name,
            style: Style::read(style),
        })
    }
}

impl Style {
    /// Reads `[#][0][WIDTH][x]`.
    pub fn read(text: &str) -> Self {
        let is_hexadecimal = text.ends_with('x');
        let text = text.trim_end_matches('x');
        let width = text.trim_start_matches('#');
        Self {
            is_hexadecimal,
            is_marked: text.starts_with('#'),
            is_filled: width.starts_with('0'),
            // Of a format that was not checked: no line is wider than this.
            width: width.parse().unwrap_or(0).min(MAX),
        }
    }
}

/// Columns of a value, at most.
const MAX: usize = 999;

/// A value that is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown<'a> {
    /// An integer without a sign.
    Unsigned(u64),
    /// An integer of so many bytes with one.
    Signed(i64, u8),
    /// A number with a fraction.
    Float(f64),
    /// 1 or 0.
    Bool(bool),
    /// A text.
    Text(&'a str),
    /// Bytes, `{0x01,0xff}`.
    Bytes(&'a [u8]),
    /// Integers as they lie in memory, `{1,-2,3}`.
    #[allow(missing_docs, reason = "the fields speak for themselves")]
    Elements { bytes: &'a [u8], size: u8, signed: bool },
}

impl Shown<'_> {
    /// As hexadecimal digits: of a negative number those of its two's complement.
    fn bits(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(value) => Some(value),
            Self::Signed(value, size) if size >= 8 => Some(value as u64),
            Self::Signed(value, size) => Some(value as u64 & ((1 << (u32::from(size) * 8)) - 1)),
            Self::Bool(value) => Some(u64::from(value)),
            _ => None,
        }
    }

    /// Writes the value in a style.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, f: &mut dyn Write, style: Style) -> fmt::Result {
        let Style { width, .. } = style;
        if style.is_hexadecimal
            && let Some(bits) = self.bits()
        {
            return match (style.is_marked, style.is_filled) {
                (true, true) => write!(f, "{bits:#0width$x}"),
                (true, false) => write!(f, "{bits:#width$x}"),
                (false, true) => write!(f, "{bits:0width$x}"),
                (false, false) => write!(f, "{bits:width$x}"),
            };
        }
        match *self {
            Self::Unsigned(value) if style.is_filled => write!(f, "{value:0width$}"),
            Self::Signed(value, _) if style.is_filled => write!(f, "{value:0width$}"),
            Self::Unsigned(value) => write!(f, "{value:>width$}"),
            Self::Signed(value, _) => write!(f, "{value:>width$}"),
            Self::Float(value) => write!(f, "{value:>width$}"),
            Self::Bool(value) => write!(f, "{:>width$}", u8::from(value)),
            Self::Text(text) => write!(f, "{text:>width$}"),
            Self::Bytes(bytes) => list(f, bytes.iter(), |f, byte| write!(f, "0x{byte:02x}")),
            Self::Elements { bytes, size, signed } => {
                let elements = bytes.chunks_exact(usize::from(size.max(1)));
                list(f, elements, |f, element| {
                    let bits = number(element);
                    match signed {
                        true => {
                            let unused = 64 - 8 * u32::from(size.clamp(1, 8));
                            write!(f, "{}", (bits << unused) as i64 >> unused)
                        }
                        false => write!(f, "{bits}"),
                    }
                })
            }
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    let shifted = |(at, byte): (usize, &u8)| u64::from(*byte) << (8 * at);
    bytes.iter().take(8).enumerate().map(shifted).sum()
}

fn list<T>(
    f: &mut dyn Write,
    all: impl Iterator<Item = T>,
    each: impl Fn(&mut dyn Write, T) -> fmt::Result,
) -> fmt::Result {
    f.write_str("{")?;
    for (at, one) in all.enumerate() {
        if at > 0 {
            f.write_str(",")?;
        }
        each(f, one)?;
    }
    f.write_str("}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn formats_fall_into_pieces() {
        let field = |name, style| Piece::Field {
            name,
            style: Style::read(style),
        };
        assert_eq!(
            pieces("{a}: {{x}} {b:#x}é").collect::<Vec<_>>(),
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
            pieces(strange).count();
        }
    }

    #[test]
    fn values_have_their_styles() {
        let text = |style: &str, shown: Shown<'_>| {
            let mut text = String::new();
            shown.write(&mut text, Style::read(style)).unwrap();
            text
        };
        let elements = Shown::Elements {
            bytes: &[0xff, 0xff, 2, 0],
            size: 2,
            signed: true,
        };
        for (style, shown, wanted) in [
            ("", Shown::Signed(-5, 2), "-5"),
            ("x", Shown::Signed(-1, 2), "ffff"),
            ("#06x", Shown::Unsigned(10), "0x000a"),
            ("05", Shown::Signed(-5, 4), "-0005"),
            ("6", Shown::Text("ab"), "    ab"),
            ("", Shown::Bool(true), "1"),
            ("", Shown::Float(0.5), "0.5"),
            ("", Shown::Bytes(&[1, 255]), "{0x01,0xff}"),
            ("", elements, "{-1,2}"),
        ] {
            assert_eq!(text(style, shown), wanted, "{style}");
        }
    }
}
