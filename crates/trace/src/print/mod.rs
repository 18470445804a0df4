//! Writes values, numbers, names and times as text, so that they look alike wherever text is shown.

mod columns;
pub(crate) mod format;
mod json;
mod names;
mod number;
mod piece;
pub mod printf;
pub mod raw;
pub(crate) mod scratch;
pub(crate) mod socket;
mod stack;
mod text;

pub use crate::escape::{self, shown, shown_bytes};
pub use columns::{clipped, columns, fill};
pub use format::OwnFormat;
pub use json::{JsonStyle, json};
pub(crate) use json::{bpftrace_string, signed, string, whole};
pub use number::{are, counted, duration, thousands, were};
pub(crate) use piece::{
    TRUNCATED, decimal, flag_names, hexadecimal, pad_left, padded, separate, source_line, symbol, user_frame,
};
pub(crate) use scratch::{Piece, Scratch};
pub use text::{Style, Trailer, styled};
pub(crate) use text::{text, tuple_members};

use crate::symbol::Symbols;
use crate::value::Value;

/// A time, ns since 1970, as text: RFC 3339, to the nanosecond.
pub fn wall_time(ns: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(ns);
    humantime::format_rfc3339_nanos(time).to_string()
}

/// Appends a value as text people read in lines of records; a stack as its frames with `<-` between them.
pub fn value(value: Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    styled(value, Style::RECORD, symbols, out);
}
