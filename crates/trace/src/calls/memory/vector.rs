//! Vectors: texts of an exec, buffers of readv(2) and its like, messages.

use super::super::quoted::quoted;
use super::{address, list, number};
use crate::syscall::shape::{BUFFER, Show, TEXT_BYTES, TEXTS, VECTORS};

/// Gives the memory behind a pointer.
type Memory<'m, 'c> = &'m dyn Fn(usize) -> Option<&'c [u8]>;

/// Words up to the first 0; whether that was found.
fn words(bytes: &[u8]) -> (usize, bool) {
    let (words, _) = bytes.as_chunks::<8>();
    match words.iter().position(|word| *word == [0; 8]) {
        Some(end) => (end, true),
        None => (words.len(), false),
    }
}

/// `["ls", "-l"]`.
pub(super) fn texts(bytes: &[u8], memory: Memory<'_, '_>, out: &mut String) -> Option<()> {
    let (count, ended) = words(bytes);
    let shown = count.min(TEXTS);
    list(
        (shown, count + usize::from(!ended)),
        out,
        |index, out| match memory(index + 1) {
            Some(text) => quoted(text, text.len() >= TEXT_BYTES as usize, out),
            // An empty text has no bytes, and what cannot be read is not there.
            None => out.push_str("\"\""),
        },
    );
    Some(())
}

/// `0x7ffc… /* 23 vars */`.
pub(super) fn count(bytes: &[u8], address: i64, out: &mut String) {
    let (count, ended) = words(bytes);
    let (least, s) = (
        if ended { "" } else { "at least " },
        if count == 1 { "" } else { "s" },
    );
    out.push_str(&format!("{address:#x} /* {least}{count} var{s} */"));
}

/// `[{iov_base="abc", iov_len=3}, …]`: so many buffers, whose bytes are the parts from `first` on; of all no more than `bytes` bytes.
pub(super) fn vectors(
    table: &[u8],
    (count, first): (usize, usize),
    mut bytes: usize,
    memory: Memory<'_, '_>,
    out: &mut String,
) -> Option<()> {
    let (words, _) = table.as_chunks::<8>();
    let read = (words.len() / 2).min(count);
    list((read, count), out, |index, out| {
        let length = usize::try_from(u64::from_le_bytes(words[2 * index + 1])).unwrap_or(usize::MAX);
        let here = length.min(bytes);
        bytes -= here;
        out.push_str("{iov_base=");
        match memory(first + index).filter(|_| index < VECTORS) {
            Some(text) => {
                let shown = &text[..text.len().min(here).min(BUFFER as usize)];
                quoted(shown, shown.len() < here, out);
            }
            None if here == 0 => out.push_str("\"\""),
            None => number(&words[2 * index], Show::Pointer, out),
        }
        out.push_str(&format!(", iov_len={length}}}"));
    });
    Some(())
}

/// `{msg_name=…, msg_namelen=…, msg_iov=[…], msg_iovlen=…, msg_controllen=…, msg_flags=…}`: parts are the name, the vector, and its buffers.
pub(super) fn message(bytes: &[u8], filled: usize, memory: Memory<'_, '_>, out: &mut String) -> Option<()> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (name, vector, count) = (word(0)?, word(16)?, word(24)?);
    let flags = half(48)?;
    out.push_str("{msg_name=");
    match memory(1).filter(|_| name != 0) {
        Some(bytes) => address::address(bytes, out),
        None => number(&name.to_le_bytes(), Show::Pointer, out),
    }
    out.push_str(&format!(", msg_namelen={}, msg_iov=", half(8)?));
    let count = usize::try_from(count).ok()?;
    match memory(2) {
        Some(table) => vectors(table, (count, 3), filled, memory, out)?,
        None => number(&vector.to_le_bytes(), Show::Pointer, out),
    }
    out.push_str(&format!(", msg_iovlen={count}"));
    let control = word(40)?;
    if control > 0 {
        out.push_str(", msg_control=");
        number(&word(32)?.to_le_bytes(), Show::Pointer, out);
    }
    out.push_str(&format!(", msg_controllen={control}, msg_flags="));
    crate::syscall::Meaning::Message.write(i64::from(flags), out);
    out.push('}');
    Some(())
}
