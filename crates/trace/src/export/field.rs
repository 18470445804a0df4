//! The fields of an event, prepared for being written: where the usual kinds lie, so that no record asks what else its values could be. Values of other kinds
//! are the format's to write.

use crate::event::EventClass;
use crate::layout::{Base, Field, FieldPlace, FieldType};
use crate::print::scratch::{has, plain};
use crate::print::{Piece, Scratch};
use crate::record::Record;
use crate::syscall::Meaning;
use crate::value::Value;

/// Words of a format for the usual values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// For people: numbers in the base that they have.
    Lines,
    /// For spreadsheets: integers are decimal, and what needs quotes is not usual.
    Cells,
    /// For programs: integers are decimal, strings and pointers have quotes.
    Json,
}

/// A field of an event, and what stands before its value.
#[derive(Clone, Debug)]
pub(super) struct Part {
    label: Piece,
    /// The place among the event's fields.
    field: usize,
    words: Words,
    read: Read,
    memo: Memo,
}

/// Converter of a value to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// A number at an offset.
    Number(Number, usize),
    /// An array of so many numbers.
    Numbers(Number, usize, usize),
    /// A text of 16 bytes.
    Short(usize),
    /// A text of so many bytes.
    Text(usize, usize),
    /// The first string of the tail: where its length is, and where it begins.
    Tail(usize, usize),
    /// A number of so many bytes that has names, or is rare: its text depends on nothing else.
    Named(usize, u8),
    /// Any other value.
    Other,
}

/// Place and format of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Signed(u8),
    Unsigned(u8),
    Hexadecimal(u8),
    /// Eight bytes, in hexadecimal and in quotes.
    Quoted,
}

/// Strings of values that were met, each in the place that its value has.
#[derive(Clone, Debug, Default)]
struct Memo {
    strings: Vec<Option<(u64, Piece)>>,
}

/// Strings that a [`Memo`] keeps.
const KEPT: usize = 16;

impl Part {
    /// The field of that index, with `label` before its value. `usual`: whether strings are written as they are; else they are the format's.
    pub(super) fn new(words: Words, label: &[u8], event: &EventClass, field: usize, strings: bool) -> Self {
        let read = event.layout.fields().get(field);
        let read = read.map_or(Read::Other, |field| Read::of(words, event, field));
        let is_text = matches!(read, Read::Short(_) | Read::Text(..) | Read::Tail(..));
        Self {
            label: Piece::new(label),
            field,
            words,
            read: if is_text && !strings { Read::Other } else { read },
            memo: Memo::default(),
        }
    }

    /// The field of that index, whose values are all the format's to write.
    pub(super) fn unusual(label: &[u8], field: usize) -> Self {
        Self {
            label: Piece::new(label),
            field,
            words: Words::Lines,
            read: Read::Other,
            memo: Memo::default(),
        }
    }

    /// The place among the event's fields.
    pub(super) fn index(&self) -> usize {
        self.field
    }

    /// Value of the field in a record.
    pub(super) fn field<'a>(&self, record: &Record<'a>) -> Option<&'a Field> {
        record.event.layout.fields().get(self.field)
    }

    /// Appends the value of a record; `other` writes one that is not usual, has something to be escaped, or is missing.
    #[inline]
    pub(super) fn write(
        &mut self,
        record: &Record<'_>,
        line: &mut Scratch,
        other: impl FnOnce(Value<'_>, &mut Vec<u8>),
    ) {
        line.piece(&self.label);
        if !self.read.write(record.bytes, self.words, &self.memo, line) {
            self.other(record, line, other);
        }
    }

    #[inline(never)]
    fn other(
        &mut self,
        record: &Record<'_>,
        line: &mut Scratch,
        other: impl FnOnce(Value<'_>, &mut Vec<u8>),
    ) {
        let Some(field) = self.field(record) else { return };
        line.append(|out| {
            let start = out.len();
            other(record.value(field), out);
            if let Read::Named(at, size) = self.read
                && let Some(number) = unsigned(record.bytes, at, size)
            {
                self.memo.keep(number, &out[start..]);
            }
        });
    }
}

impl Read {
    /// Reading of a field of the event.
    fn of(words: Words, event: &EventClass, field: &Field) -> Self {
        let at = match field.place {
            FieldPlace::Fixed { offset } => offset as usize,
            FieldPlace::Tail { count_offset } => {
                let mut tail = event.layout.tail();
                let first = tail.next().is_some_and(|first| first.offset() == count_offset);
                let string = matches!(field.ty, FieldType::String { .. });
                return match first && string {
                    true => Self::Tail(count_offset as usize, event.layout.fixed_end() as usize),
                    false => Self::Other,
                };
            }
        };
        match &field.ty {
            FieldType::CharArray { size: 16 } => Self::Short(at),
            FieldType::CharArray { size } => Self::Text(at, *size as usize),
            // Cells with commas have quotes, and what is in arrays has the base that it has.
            FieldType::Array { .. } if words == Words::Cells => Self::Other,
            FieldType::Array { element, count } => match Number::of(words, element) {
                Some(number) => Self::Numbers(number, at, *count as usize),
                None => Self::Other,
            },
            ty => match (Number::of(words, ty), ty) {
                (Some(number), _) => Self::Number(number, at),
                (None, FieldType::Bool) => Self::Named(at, 1),
                (
                    None,
                    FieldType::Integer { size, .. }
                    | FieldType::Enumeration { size, .. }
                    | FieldType::Flags { size, .. },
                ) => Self::Named(at, *size),
                _ => Self::Other,
            },
        }
    }

    /// Appends the value; false, and nothing, where it is of another kind, has something to be escaped, is not kept in `memo`, or the record is too short.
    #[inline]
    fn write(self, bytes: &[u8], words: Words, memo: &Memo, line: &mut Scratch) -> bool {
        match self {
            Self::Number(number, at) => number.write(bytes, at, line),
            Self::Numbers(number, at, count) => {
                let size = usize::from(number.size());
                if bytes.len() < at + size * count {
                    return false;
                }
                line.byte(b'[');
                for index in 0..count {
                    match words {
                        _ if index == 0 => {}
                        Words::Json => line.byte(b','),
                        Words::Lines | Words::Cells => line.two(*b", "),
                    }
                    number.write(bytes, at + index * size, line);
                }
                line.byte(b']');
                true
            }
            Self::Short(at) => match chunk(bytes, at) {
                Some(text) => short(text, words, line),
                None => false,
            },
            Self::Text(at, size) => {
                let text = bytes.get(at..at + size);
                // One that begins with its end may be one that could not be read.
                let filled = text.map(|text| match text.iter().position(|byte| *byte == 0) {
                    Some(end) => &text[..end],
                    None => text,
                });
                filled.is_some_and(|text| !text.is_empty() && usual(text, words, line))
            }
            Self::Tail(length_at, at) => {
                let length = chunk(bytes, length_at).map(|length| usize::from(u16::from_le_bytes(length)));
                let text = length.and_then(|length| bytes.get(at..at + length));
                text.is_some_and(|text| usual(text, words, line))
            }
            Self::Named(at, size) => match unsigned(bytes, at, size).and_then(|number| memo.get(number)) {
                Some(piece) => {
                    line.piece(piece);
                    true
                }
                None => false,
            },
            Self::Other => false,
        }
    }
}

impl Number {
    fn of(words: Words, ty: &FieldType) -> Option<Self> {
        let number = match *ty {
            FieldType::Integer { size, signed, base } => match (words, base) {
                (Words::Lines, Base::Hexadecimal) => Self::Hexadecimal(size),
                (Words::Lines, Base::Octal | Base::Named(_))
                | (Words::Cells, Base::Named(Meaning::KernelDevice))
                | (_, Base::Float) => return None,
                _ if signed => Self::Signed(size),
                _ => Self::Unsigned(size),
            },
            FieldType::Pointer { symbolic: false } if words == Words::Json => Self::Quoted,
            FieldType::Pointer { symbolic: false } => Self::Hexadecimal(8),
            _ => return None,
        };
        matches!(number.size(), 1 | 2 | 4 | 8).then_some(number)
    }

    fn size(self) -> u8 {
        match self {
            Self::Signed(size) | Self::Unsigned(size) | Self::Hexadecimal(size) => size,
            Self::Quoted => 8,
        }
    }

    #[inline]
    fn write(self, bytes: &[u8], at: usize, line: &mut Scratch) -> bool {
        let Some(value) = unsigned(bytes, at, self.size()) else {
            return false;
        };
        match self {
            Self::Signed(1) => line.signed((value as i8).into()),
            Self::Signed(2) => line.signed((value as i16).into()),
            Self::Signed(4) => line.signed((value as i32).into()),
            Self::Signed(_) => line.signed(value.cast_signed()),
            Self::Unsigned(_) => line.decimal(value),
            Self::Hexadecimal(_) => line.hexadecimal(value),
            Self::Quoted => {
                line.byte(b'"');
                line.hexadecimal(value);
                line.byte(b'"');
            }
        }
        true
    }
}

impl Memo {
    #[inline]
    fn get(&self, number: u64) -> Option<&Piece> {
        match self.strings.get(place(number)) {
            Some(Some((kept, piece))) if *kept == number => Some(piece),
            _ => None,
        }
    }

    fn keep(&mut self, number: u64, text: &[u8]) {
        self.strings.resize(KEPT, None);
        self.strings[place(number)] = Some((number, Piece::new(text)));
    }
}

/// Small numbers, single bits and errors of system calls that are frequent together have places of their own.
fn place(number: u64) -> usize {
    (number ^ number >> 4 ^ number >> 8 ^ number >> 16) as usize % KEPT
}

/// Appends a text of 16 bytes up to its NUL, if it is not empty and needs no escape.
#[inline]
fn short(text: [u8; 16], words: Words, line: &mut Scratch) -> bool {
    let Some(length) = plain(text) else { return false };
    let strange = match words {
        Words::Lines => false,
        Words::Cells => has(text, b',') || has(text, b'"'),
        Words::Json => has(text, b'\\') || has(text, b'"'),
    };
    if strange {
        return false;
    }
    if words == Words::Json {
        line.byte(b'"');
    }
    line.short(text, length);
    if words == Words::Json {
        line.byte(b'"');
    }
    true
}

/// Appends a text that needs no escape.
fn usual(text: &[u8], words: Words, line: &mut Scratch) -> bool {
    let usual = |byte: &u8| {
        let strange = match words {
            Words::Lines => false,
            Words::Cells => matches!(byte, b',' | b'"'),
            Words::Json => matches!(byte, b'\\' | b'"'),
        };
        !strange && (0x20..0x7f).contains(byte)
    };
    if !text.iter().all(usual) {
        return false;
    }
    if words == Words::Json {
        line.byte(b'"');
    }
    line.text(text);
    if words == Words::Json {
        line.byte(b'"');
    }
    true
}

#[inline]
fn unsigned(bytes: &[u8], at: usize, size: u8) -> Option<u64> {
    Some(match size {
        1 => u64::from(*bytes.get(at)?),
        2 => chunk(bytes, at).map(u16::from_le_bytes)?.into(),
        4 => chunk(bytes, at).map(u32::from_le_bytes)?.into(),
        8 => u64::from_le_bytes(chunk(bytes, at)?),
        _ => return None,
    })
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
