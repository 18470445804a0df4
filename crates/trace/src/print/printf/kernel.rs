//! Formats as the kernel performs them (`bpf_seq_printf`): its text is ASCII, its conversions are fewer, a call takes few values.

use super::{Conversion, Format, Length, Letter, Piece};
use crate::layout::{Base, FieldType};
use crate::print::raw;

/// Most values of a call (`MAX_BPRINTF_VARARGS` of linux/bpf.h).
const MAX_VALUES: usize = 12;

/// A part of what is written, in order: one call of the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelPart {
    /// Bytes as they stand.
    Bytes(Vec<u8>),
    /// The low byte of the next value.
    Character,
    /// A format with the next values. A string among them is the last: the kernel gives it all the room that is left.
    Format {
        /// In the kernel's spelling.
        format: String,
        /// One for each of its conversions.
        values: Vec<KernelValue>,
    },
}

/// How the kernel is given a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelValue {
    /// As a number.
    Number,
    /// As a number of which so many bytes are meant.
    Narrow {
        /// 1 or 2.
        bytes: u8,
        /// Whether the uppermost bit is a sign.
        signed: bool,
    },
    /// As the address of a string.
    String,
}

/// A conversion that the kernel does not perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTheKernels {
    /// Place of its value, counted from 0.
    pub argument: usize,
    /// A conversion that can be written instead of it, if there is one.
    pub instead: Option<&'static str>,
}

impl Format {
    /// The calls by which the kernel writes it, for values of these types, which suit it ([`Format::check`]).
    ///
    /// # Errors
    /// The first conversion that the kernel does not perform.
    pub fn for_kernel<'t>(
        &self,
        types: impl IntoIterator<Item = &'t FieldType>,
    ) -> Result<Vec<KernelPart>, NotTheKernels> {
        let mut types = types.into_iter().enumerate();
        let mut parts = Parts::default();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => parts.text(&raw::to_bytes(text)),
                Piece::Argument(conversion) => {
                    let Some((argument, ty)) = types.next() else {
                        break;
                    };
                    let wrong = |instead| NotTheKernels { argument, instead };
                    conversion.add_for_kernel(ty, &mut parts).map_err(wrong)?;
                }
            }
        }
        parts.end();
        Ok(parts.whole)
    }
}

/// Parts, and the call that is not whole yet.
#[derive(Default)]
struct Parts {
    whole: Vec<KernelPart>,
    /// Text before the next value, as it is shown.
    plain: Vec<u8>,
    format: String,
    values: Vec<KernelValue>,
}

impl Parts {
    fn text(&mut self, bytes: &[u8]) {
        self.plain.extend_from_slice(bytes);
    }

    /// Adds a conversion.
    fn value(&mut self, conversion: &str, value: KernelValue) {
        if !self.is_plain_ascii() {
            self.end();
        }
        if self.values.len() == MAX_VALUES || self.values.last() == Some(&KernelValue::String) {
            self.end_format();
        }
        self.put_plain();
        self.format += conversion;
        self.values.push(value);
    }

    /// Whether the kernel takes the text in a format.
    fn is_plain_ascii(&self) -> bool {
        let takes = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t'..=b'\r');
        self.plain.iter().all(takes)
    }

    /// Puts the text into the format.
    fn put_plain(&mut self) {
        for byte in std::mem::take(&mut self.plain) {
            self.format.push(char::from(byte));
            if byte == b'%' {
                self.format.push('%');
            }
        }
    }

    /// Ends the call that was begun, and writes the text.
    fn end(&mut self) {
        if !self.values.is_empty() && self.is_plain_ascii() {
            self.put_plain();
        }
        self.end_format();
        if !self.plain.is_empty() {
            self.whole
                .push(KernelPart::Bytes(std::mem::take(&mut self.plain)));
        }
    }

    fn end_format(&mut self) {
        if !self.values.is_empty() {
            self.whole.push(KernelPart::Format {
                format: std::mem::take(&mut self.format),
                values: std::mem::take(&mut self.values),
            });
        }
    }
}

impl Conversion {
    /// Adds it as the kernel spells it; else what can be written instead.
    fn add_for_kernel(&self, ty: &FieldType, parts: &mut Parts) -> Result<(), Option<&'static str>> {
        let value = match (self.letter, self.length) {
            (Letter::Signed, Length::Char) => narrow(1, true),
            (Letter::Signed, Length::Short) => narrow(2, true),
            (Letter::Unsigned | Letter::Hexadecimal { .. }, Length::Char) => narrow(1, false),
            (Letter::Unsigned | Letter::Hexadecimal { .. }, Length::Short) => narrow(2, false),
            _ => KernelValue::Number,
        };
        let long = if self.length == Length::Long { "ll" } else { "" };
        let plus = if self.plus { "+" } else { "" };
        let conversion = match self.letter {
            Letter::Signed => self.spelled(plus, &format!("{long}d")),
            Letter::Unsigned => self.spelled("", &format!("{long}u")),
            Letter::Hexadecimal { .. } if self.alternate => return Err(Some("0x%x")),
            Letter::Hexadecimal { upper: false } => self.spelled("", &format!("{long}x")),
            Letter::Hexadecimal { upper: true } => self.spelled("", &format!("{long}X")),
            Letter::Pointer if self.width > 0 => return Err(Some("0x%016llx")),
            Letter::Pointer => "0x%llx".to_owned(),
            Letter::Character if self.width > 0 => return Err(Some("%c")),
            Letter::Character => {
                parts.end();
                parts.whole.push(KernelPart::Character);
                return Ok(());
            }
            Letter::Text => match ty {
                FieldType::CharArray { .. } | FieldType::String { .. } | FieldType::InlineString { .. } => {
                    parts.value(&self.spelled("", "s"), KernelValue::String);
                    return Ok(());
                }
                FieldType::Integer {
                    signed,
                    base: Base::Decimal,
                    ..
                } => self.spelled("", if *signed { "lld" } else { "llu" }),
                _ if ty.integer_size().is_some() => return Err(Some("%lld")),
                _ => return Err(None),
            },
            Letter::Octal => return Err(Some("%llx")),
            Letter::Buffer(_) | Letter::PageFlags | Letter::Unsupported(_) => return Err(None),
        };
        parts.value(&conversion, value);
        Ok(())
    }

    /// The conversion with its flags and width; `plus` stands only before numbers with a sign.
    fn spelled(&self, plus: &str, letters: &str) -> String {
        let left = if self.left { "-" } else { "" };
        let zero = if self.zero { "0" } else { "" };
        let width = match self.width {
            0 => String::new(),
            width => width.to_string(),
        };
        format!("%{left}{plus}{zero}{width}{letters}")
    }
}

const fn narrow(bytes: u8, signed: bool) -> KernelValue {
    KernelValue::Narrow { bytes, signed }
}
