//! The metadata text (TSDL) of a trace: written from a `TraceInfo`, and read back into an equal one.
//!
//! TSDL says where fields lie and how wide they are; it cannot say in which order people read them, that a byte is a
//! bool, which bits have names, or how long a string may be. Those hints stand in `env` entries that other readers show as
//! plain strings: `event_3 = "tracepoint prev_comm:… …"`, see `hint`. What all of Kestrel's traces have in common is
//! `kestrel_layout::tsdl`'s.
//!
//! Field names carry a leading underscore, which CTF readers strip, so that a field may be called `string` or `event`.

pub(crate) mod cursor;
mod hint;
pub(crate) mod lexer;
mod restore;
mod tree;
mod write;

pub use restore::parse;
pub use write::text;

use kestrel_layout::tsdl::{BEGINNING, TRACER};

/// Whether a file is the metadata of one of Kestrel's traces, of whatever version; what else is called `metadata`, or is another tracer's, is not.
pub fn is_own(bytes: &[u8]) -> bool {
    let names = |tracer: &[u8]| bytes.windows(tracer.len()).any(|window| window == tracer);
    // babeltrace2 takes over what a trace says of its tracer, lays it out as its own, and says so in a comment.
    let is_written_again = |text: &[u8]| text.trim_ascii_start().starts_with(b"/*");
    let text = bytes.strip_prefix(BEGINNING.as_bytes());
    text.is_some_and(|text| !is_written_again(text)) && names(TRACER.as_bytes())
}

/// Whether bytes are the first ones of such a file, as a writer leaves them that is killed while it writes.
pub(crate) fn is_beginning(bytes: &[u8]) -> bool {
    let known = bytes.len().min(BEGINNING.len());
    bytes[..known] == BEGINNING.as_bytes()[..known]
}
