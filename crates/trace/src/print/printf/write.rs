//! Formats performed over values.

use super::page_flags::PAGE_FLAGS;
use super::{Conversion, Form, Format, Length, Letter, Piece};
use crate::print::text::{digits, styled};
use crate::print::{Style, decimal, escape::escape, flag_names, hexadecimal, raw};
use crate::symbol::Symbols;
use crate::value::Value;
use std::io::Write;

impl Format {
    /// Appends the text with a value in each argument's place; where there is none, nothing stands there.
    pub fn write<'v>(
        &self,
        values: impl IntoIterator<Item = Value<'v>>,
        style: Style<'_>,
        symbols: &Symbols,
        out: &mut Vec<u8>,
    ) {
        let mut values = values.into_iter();
        for piece in &self.pieces {
            match piece {
                // The program's own words, colours and all.
                Piece::Text(text) => out.extend_from_slice(&raw::to_bytes(text)),
                Piece::Argument(conversion) => {
                    if let Some(value) = values.next() {
                        conversion.write(value, style, symbols, out);
                    }
                }
            }
        }
    }
}

impl Conversion {
    fn write(&self, value: Value<'_>, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
        let start = out.len();
        self.convert(value, style, symbols, out);
        let length = out.len() - start;
        let missing = self.width.saturating_sub(length);
        match (self.left, self.zero) {
            (true, _) => out.resize(out.len() + missing, b' '),
            (false, zero) => {
                // Zeroes stand before signs, too: bpftrace has a number padded as it has a text.
                let filler = if zero { b'0' } else { b' ' };
                drop(out.splice(start..start, std::iter::repeat_n(filler, missing)));
            }
        }
    }

    fn convert(&self, value: Value<'_>, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
        let number = match self.letter {
            Letter::Buffer(form) => return bytes(value, form, style, symbols, out),
            Letter::Text | Letter::Unsupported(_) => None,
            _ => value.as_u64(),
        };
        // A value that is no number is written as it is: the check of the format lets none come here.
        let Some(number) = number else {
            return styled(value, style, symbols, out);
        };
        match self.letter {
            Letter::Signed => self.signed(number, out),
            Letter::Unsigned => decimal(self.cut(number), out),
            Letter::Octal => self.octal(self.cut(number), out),
            Letter::Hexadecimal { upper } => self.hexadecimal(self.cut(number), upper, out),
            Letter::Character if style.escaped && !matches!(number as u8, b'\n' | b'\t') => {
                escape(&[number as u8], out);
            }
            Letter::Character => out.push(number as u8),
            Letter::Pointer if number == 0 => out.push(b'0'),
            Letter::Pointer => hexadecimal(number, out),
            _ if number == 0 => out.push(b'0'),
            _ => flag_names(number, &PAGE_FLAGS, out),
        }
    }

    /// The bits that are meant.
    fn cut(&self, number: u64) -> u64 {
        match self.length {
            Length::Char => u64::from(number as u8),
            Length::Short => u64::from(number as u16),
            Length::Int => u64::from(number as u32),
            Length::Long => number,
        }
    }

    fn signed(&self, number: u64, out: &mut Vec<u8>) {
        let number = match self.length {
            Length::Char => i64::from(number as i8),
            Length::Short => i64::from(number as i16),
            Length::Int => i64::from(number as i32),
            Length::Long => number.cast_signed(),
        };
        if self.plus && number >= 0 {
            out.push(b'+');
        }
        decimal(number, out);
    }

    fn octal(&self, number: u64, out: &mut Vec<u8>) {
        let prefix = if self.alternate && number != 0 { "0" } else { "" };
        // Writing to a vector cannot fail.
        let _ = write!(out, "{prefix}{number:o}");
    }

    fn hexadecimal(&self, number: u64, upper: bool, out: &mut Vec<u8>) {
        let prefix = self.alternate && number != 0;
        let _ = match (upper, prefix) {
            (false, false) => write!(out, "{number:x}"),
            (false, true) => write!(out, "0x{number:x}"),
            (true, false) => write!(out, "{number:X}"),
            (true, true) => write!(out, "0X{number:X}"),
        };
    }
}

fn bytes(value: Value<'_>, form: Form, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    let (Value::Buffer(bytes) | Value::Text(bytes)) = value else {
        return styled(value, style, symbols, out);
    };
    for (index, byte) in bytes.iter().enumerate() {
        match form {
            Form::Text => return styled(Value::Buffer(bytes), style, symbols, out),
            Form::Escaped => out.extend_from_slice(b"\\x"),
            Form::Spaced if index > 0 => out.push(b' '),
            Form::Spaced => {}
        }
        digits(*byte, out);
    }
}
