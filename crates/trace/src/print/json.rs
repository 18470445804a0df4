//! Values of all types as JSON: the one printer, for records and for what programs print.

use super::escape::is_unsafe;
use super::piece::{TRUNCATED, decimal, flag_names, frame, hexadecimal, pointer, separate};
use super::text::{Style, Trailer, styled};
use crate::layout::{Base, CompositeKind, EventName};
use crate::symbol::Symbols;
use crate::value::{Value, name_of};

/// Style of values in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonStyle<'s> {
    /// Kestrel's: integers are numbers whatever their base; pointers, frames and flags are strings as people read them, a named value of an enumeration is its
    /// name, what could not be read is `null`.
    Record,
    /// bpftrace's, byte for byte: pointers and enumerators are numbers, those that a number of 64 bits with a binary point cannot hold are strings, buffers are
    /// lists of bytes, stacks are strings of several lines. Strings have its trailer where they were cut.
    Bpftrace {
        /// Mark behind a string that was cut.
        trailer: Trailer<'s>,
    },
}

impl JsonStyle<'_> {
    /// bpftrace's, with its usual trailer.
    pub const BPFTRACE: JsonStyle<'static> = JsonStyle::Bpftrace {
        trailer: Trailer::new(".."),
    };
}

/// Appends a value as JSON.
pub fn json(value: Value<'_>, style: JsonStyle<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    match style {
        JsonStyle::Record => record(value, symbols, out),
        JsonStyle::Bpftrace { trailer } => {
            let text = Style {
                trailer,
                ..Style::BPFTRACE
            };
            bpftrace(value, style, text, symbols, out);
        }
    }
}

fn record(value: Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    let style = JsonStyle::Record;
    match value {
        Value::Signed { value, .. } => decimal(value, out),
        Value::Unsigned {
            value,
            base: Base::Float,
            ..
        } => fraction(f64::from_bits(value), out),
        Value::Unsigned { value, .. } => decimal(value, out),
        Value::Bool(value) => boolean(value, out),
        Value::Float(value) => fraction(value, out),
        Value::Pointer { address, symbolic } => quoted(out, |out| match symbolic {
            true => pointer(address, symbols, out),
            false => hexadecimal(address, out),
        }),
        Value::Enumeration { value, signed, names } => match name_of(value, names) {
            Some(name) => string(name.as_bytes(), out),
            None => enumerator(value, signed, out),
        },
        Value::Flags { bits, names } => {
            let mut text = Vec::new();
            flag_names(bits, names, &mut text);
            string(&text, out);
        }
        Value::Text(bytes) => string(bytes, out),
        Value::CutText(_) | Value::Buffer(_) | Value::Named(_) => {
            quoted(out, |out| styled(value, Style::RECORD, symbols, out))
        }
        Value::Array(_) | Value::Composite(_) => nested(value, style, symbols, out),
        Value::Stack(frames) => match frames.build_ids() {
            Some(_) => quoted(out, |out| styled(value, Style::MAP, symbols, out)),
            None => {
                let addresses = frames.iter().map(Some).chain(frames.truncated.then_some(None));
                list(addresses.enumerate(), out, |(index, address), out| {
                    quoted(out, |out| match address {
                        Some(address) => frame(&frames, index, address, symbols, out),
                        None => out.extend_from_slice(TRUNCATED.as_bytes()),
                    });
                });
            }
        },
        // A number or text in its place could be taken for a value.
        Value::Fault | Value::Missing => out.extend_from_slice(b"null"),
    }
}

fn bpftrace(value: Value<'_>, style: JsonStyle<'_>, text: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    match value {
        Value::Signed { value, .. } => signed(value, out),
        Value::Unsigned {
            value,
            base: Base::Float,
            ..
        } => fraction(f64::from_bits(value), out),
        Value::Unsigned { value, .. } => whole(value, out),
        Value::Bool(value) => boolean(value, out),
        Value::Float(value) => fraction(value, out),
        Value::Pointer {
            address,
            symbolic: false,
        } => whole(address, out),
        Value::Enumeration { value, names, .. } if EventName::are(names) => match name_of(value, names) {
            Some(name) => bpftrace_string(name.as_bytes(), out),
            None => whole(value.cast_unsigned(), out),
        },
        Value::Enumeration {
            value, signed: true, ..
        } => signed(value, out),
        Value::Enumeration { value, .. } => whole(value.cast_unsigned(), out),
        Value::Flags { bits, .. } => whole(bits, out),
        // Its bytes are C's `char`, which has a sign.
        Value::Buffer(bytes) => list(bytes.iter(), out, |byte, out| decimal(byte.cast_signed(), out)),
        Value::Array(_) | Value::Composite(_) => nested(value, style, symbols, out),
        Value::Pointer { symbolic: true, .. }
        | Value::Text(_)
        | Value::CutText(_)
        | Value::Named(_)
        | Value::Stack(_)
        | Value::Fault
        | Value::Missing => {
            let mut shown = Vec::new();
            styled(value, text, symbols, &mut shown);
            bpftrace_string(&shown, out);
        }
    }
}

/// A list of elements, or an object of members; a tuple is a list. Between members bpftrace has blanks.
fn nested(value: Value<'_>, style: JsonStyle<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    let each = |value: Value<'_>, out: &mut Vec<u8>| json(value, style, symbols, out);
    match value {
        Value::Array(elements) => list(elements.iter(), out, each),
        Value::Composite(parts) if parts.ty().kind == CompositeKind::Tuple => {
            list(parts.iter(), out, |(_, value), out| each(value, out));
        }
        Value::Composite(parts) => {
            let (comma, colon): (&[u8], &[u8]) = match style {
                JsonStyle::Record => (b",", b":"),
                JsonStyle::Bpftrace { .. } => (b", ", b": "),
            };
            out.push(b'{');
            for (i, (member, value)) in parts.iter().enumerate() {
                separate(i, comma, out);
                string(member.name.as_bytes(), out);
                out.extend_from_slice(colon);
                each(value, out);
            }
            out.push(b'}');
        }
        _ => {}
    }
}

fn boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// A number with a fraction; JSON has none for those that are not finite.
fn fraction(value: f64, out: &mut Vec<u8>) {
    match value.is_finite() {
        true => out.extend_from_slice(value.to_string().as_bytes()),
        false => out.extend_from_slice(b"null"),
    }
}

fn enumerator(value: i64, signed: bool, out: &mut Vec<u8>) {
    match signed {
        true => decimal(value, out),
        false => decimal(value.cast_unsigned(), out),
    }
}

/// A number as bpftrace writes it: a string, where a `double` cannot hold it.
pub(crate) fn whole(value: u64, out: &mut Vec<u8>) {
    number(value, value as f64 as u128 == u128::from(value), out);
}

/// Appends a signed number, as a text where a reader of JSON would round it.
pub(crate) fn signed(value: i64, out: &mut Vec<u8>) {
    number(value, value as f64 as i128 == i128::from(value), out);
}

fn number(value: impl itoa::Integer, exact: bool, out: &mut Vec<u8>) {
    let quote: &[u8] = if exact { b"" } else { b"\"" };
    out.extend_from_slice(quote);
    decimal(value, out);
    out.extend_from_slice(quote);
}

fn list<T>(items: impl Iterator<Item = T>, out: &mut Vec<u8>, mut each: impl FnMut(T, &mut Vec<u8>)) {
    out.push(b'[');
    for (i, item) in items.enumerate() {
        separate(i, b",", out);
        each(item, out);
    }
    out.push(b']');
}

/// A string of text that hardly ever needs escapes: hexadecimal numbers and names of symbols.
fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    let start = out.len();
    write(out);
    if out[start..].iter().all(plain) {
        out.push(b'"');
    } else {
        let text = out.split_off(start);
        out.pop();
        string(&text, out);
    }
}

/// Whether a byte stands for itself in a JSON string.
fn plain(byte: &u8) -> bool {
    (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\'
}

/// A JSON string; bytes that are not UTF-8 become U+FFFD.
pub(crate) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if bytes.iter().all(plain) {
        out.extend_from_slice(bytes);
    } else {
        for c in String::from_utf8_lossy(bytes).chars() {
            escaped(c, out);
        }
    }
    out.push(b'"');
}

fn escaped(c: char, out: &mut Vec<u8>) {
    match c {
        '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
        '\n' => out.extend_from_slice(b"\\n"),
        '\t' => out.extend_from_slice(b"\\t"),
        // JSON may hold some of these as they are; but what is meant for programs is looked at on terminals, too.
        c if is_unsafe(c) => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// A JSON string as bpftrace writes it: only what JSON cannot hold is escaped. Bytes that are not UTF-8 become U+FFFD, where bpftrace writes what no reader
/// of JSON takes.
pub(crate) fn bpftrace_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\r' => out.extend_from_slice(b"\\r"),
            '"' | '\\' | '\n' | '\t' | '\0'..='\x1f' => escaped(c, out),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
