//! Formats of `printf`: a text parsed once into pieces, checked against the types of its arguments, and performed over their values.
//!
//! A conversion is `%[-][+][ ][#][0][width][.precision][length]LETTER`, with bpftrace's meanings: `%d`, `%u`, `%x` are of 32 bits unless a length says
//! otherwise; a precision and a blank say nothing; a sign is shown with numbers that have one. What is no conversion stands for itself.

mod check;
mod kernel;
mod page_flags;
mod parse;
mod write;

pub use check::{Mismatch, Wrong};
pub use kernel::{KernelPart, KernelValue, NotTheKernels};

use std::ops::Range;

/// A format, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    pieces: Vec<Piece>,
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Text that stands for itself.
    Text(String),
    /// The next argument's place.
    Argument(Conversion),
}

/// A conversion of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Where it stands, in bytes of the format.
    pub at: Range<usize>,
    left: bool,
    plus: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    length: Length,
    letter: Letter,
}

/// Length modifier: the bits of a number that are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Char,
    Short,
    Int,
    Long,
}

/// Conversion letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    Signed,
    Unsigned,
    Octal,
    Hexadecimal {
        upper: bool,
    },
    Character,
    Pointer,
    Text,
    /// `%r`, `%rx`, `%rh`.
    Buffer(Form),
    /// `%gr`: flags of page allocations.
    PageFlags,
    /// A conversion of a type that the language does not have: `%f`.
    Unsupported(char),
}

/// Form of a buffer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `a\x00`.
    Text,
    /// `\x61\x00`.
    Escaped,
    /// `61 00`.
    Spaced,
}

impl Format {
    /// The conversions in order: one for each argument.
    pub fn conversions(&self) -> impl Iterator<Item = &Conversion> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Argument(conversion) => Some(conversion),
            Piece::Text(_) => None,
        })
    }
}

impl Conversion {
    /// The letters: `d`, `rx`.
    pub fn letters(&self) -> String {
        let letters = match self.letter {
            Letter::Signed => "d",
            Letter::Unsigned => "u",
            Letter::Octal => "o",
            Letter::Hexadecimal { upper: false } => "x",
            Letter::Hexadecimal { upper: true } => "X",
            Letter::Character => "c",
            Letter::Pointer => "p",
            Letter::Text => "s",
            Letter::Buffer(Form::Text) => "r",
            Letter::Buffer(Form::Escaped) => "rx",
            Letter::Buffer(Form::Spaced) => "rh",
            Letter::PageFlags => "gr",
            Letter::Unsupported(letter) => return letter.to_string(),
        };
        letters.to_owned()
    }
}

#[cfg(test)]
mod tests;
