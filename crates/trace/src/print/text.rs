//! Values of all types as text: the one printer, for lines of records and for what programs print.

use super::escape::{escape, escape_in_output};
use super::names;
use super::piece::{
    TRUNCATED, decimal, enumeration, flag_names, frame, hexadecimal, named, pointer, separate, unsigned,
};
use super::stack::stack;
use crate::layout::{Base, CompositeKind};
use crate::symbol::Symbols;
use crate::value::{Elements, Frames, Parts, Value};

/// Style of printed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style<'s> {
    /// Whether stacks are a frame a line and arrays have no blanks, as bpftrace has them; else all is one line: `a <- b`, `[1, 2]`.
    pub lines: bool,
    /// Whether what could not be read is nothing, and a backslash is one, as with bpftrace; else they are spelled out.
    pub raw: bool,
    /// Whether what a terminal would obey in text is spelled out; ends of lines and tabs are left to programs in bpftrace's language.
    pub escaped: bool,
    /// Mark behind a string that was cut.
    pub trailer: Trailer<'s>,
}

/// The suffix of strings that were cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer<'s> {
    /// Text of the string.
    pub text: &'s str,
    /// Length of strings that are taken for cut although nothing with them says so: variables and maps of a program hold so many bytes of one (`max_strlen`).
    pub longest: Option<usize>,
}

impl<'s> Trailer<'s> {
    /// A trailer of those strings alone that say themselves that they were cut.
    pub const fn new(text: &'s str) -> Self {
        Self { text, longest: None }
    }
}

impl Style<'_> {
    /// Style of records in lines.
    pub const RECORD: Style<'static> = Style {
        lines: false,
        raw: false,
        escaped: true,
        trailer: Trailer::new("…"),
    };
    /// Style of maps where Kestrel's own commands show them.
    pub const MAP: Style<'static> = Style {
        lines: true,
        raw: false,
        escaped: true,
        trailer: Trailer::new(".."),
    };
    /// bpftrace's, byte for byte.
    pub const BPFTRACE: Style<'static> = Style {
        lines: true,
        raw: true,
        escaped: false,
        trailer: Trailer::new(".."),
    };
}

/// Appends a value in a style.
pub fn styled(value: Value<'_>, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    match value {
        Value::Signed {
            value,
            base: Base::Decimal,
            ..
        } => decimal(value, out),
        Value::Signed {
            value,
            base: Base::Named(meaning),
            ..
        } if !meaning.is_set() => named(meaning, value, out),
        // In other bases people mean the bits.
        Value::Signed { value, base, size } => {
            let bits = u32::from(size.clamp(1, 8)) * 8;
            unsigned(value as u64 & (u64::MAX >> (64 - bits)), base, out);
        }
        Value::Unsigned { value, base, .. } => unsigned(value, base, out),
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Float(value) => out.extend_from_slice(value.to_string().as_bytes()),
        // bpftrace writes no address as a plain 0.
        Value::Pointer {
            address: 0,
            symbolic: true,
        } if style.raw => out.push(b'0'),
        // Nor does it write how far behind the symbol's start the address is.
        Value::Pointer {
            address,
            symbolic: true,
        } => match symbols.resolve(address).filter(|_| style.raw) {
            Some(it) => escape(it.name.as_bytes(), out),
            None => pointer(address, symbols, out),
        },
        Value::Pointer { address, .. } => hexadecimal(address, out),
        Value::Enumeration { value, signed, names } => enumeration(value, signed, names, out),
        Value::Flags { bits, names } => flag_names(bits, names, out),
        Value::Text(bytes) if style.trailer.longest != Some(bytes.len()) => text(bytes, style, out),
        Value::Text(bytes) | Value::CutText(bytes) => {
            text(bytes, style, out);
            out.extend_from_slice(style.trailer.text.as_bytes());
        }
        Value::Buffer(bytes) => buffer(bytes, style, out),
        Value::Array(elements) => array(elements, style, symbols, out),
        Value::Composite(parts) => composite(parts, style, symbols, out),
        Value::Named(named) => names::named(named, style, symbols, out),
        Value::Stack(frames) if style.lines => stack(&frames, symbols, out),
        Value::Stack(frames) => one_line(&frames, symbols, out),
        Value::Fault if style.raw => {}
        Value::Fault => out.extend_from_slice(b"(fault)"),
        Value::Missing if style.raw => {}
        Value::Missing => out.extend_from_slice(b"<missing>"),
    }
}

pub(crate) fn text(bytes: &[u8], style: Style<'_>, out: &mut Vec<u8>) {
    match (style.escaped, style.raw) {
        (false, _) => out.extend_from_slice(bytes),
        (true, false) => escape(bytes, out),
        (true, true) => escape_in_output(bytes, out),
    }
}

/// Bytes of memory: printable ASCII as it is, others as `\x00`; a backslash twice, but where bpftrace's text is wanted.
fn buffer(bytes: &[u8], style: Style<'_>, out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'\\' if !style.raw => out.extend_from_slice(b"\\\\"),
            0x20..0x7f => out.push(*byte),
            _ => {
                out.extend_from_slice(b"\\x");
                digits(*byte, out);
            }
        }
    }
}

/// A byte as two hexadecimal digits.
pub(super) fn digits(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

fn array(elements: Elements<'_>, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    let comma: &[u8] = if style.lines { b"," } else { b", " };
    out.push(b'[');
    for (i, element) in elements.iter().enumerate() {
        separate(i, comma, out);
        styled(element, style, symbols, out);
    }
    out.push(b']');
}

fn composite(parts: Parts<'_>, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    if parts.ty().kind == CompositeKind::Tuple {
        out.push(b'(');
        tuple_members(parts, style, symbols, out);
        return out.push(b')');
    }
    if parts.ty().members.is_empty() {
        return out.extend_from_slice(b"{}");
    }
    out.extend_from_slice(b"{ ");
    for (i, (member, value)) in parts.iter().enumerate() {
        separate(i, b", ", out);
        out.push(b'.');
        escape(member.name.as_bytes(), out);
        out.extend_from_slice(b" = ");
        styled(value, style, symbols, out);
    }
    out.extend_from_slice(b" }");
}

/// `1, 2`, the members of a tuple without its parentheses.
pub(crate) fn tuple_members(parts: Parts<'_>, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    for (i, (_, value)) in parts.iter().enumerate() {
        separate(i, b", ", out);
        styled(value, style, symbols, out);
    }
}

fn one_line(frames: &Frames<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    for (i, address) in frames.iter().enumerate() {
        separate(i, b" <- ", out);
        frame(frames, i, address, symbols, out);
    }
    if frames.truncated {
        separate(usize::from(!frames.is_empty()), b" <- ", out);
        out.extend_from_slice(TRUNCATED.as_bytes());
    }
}
