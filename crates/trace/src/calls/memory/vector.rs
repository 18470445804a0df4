//! Vectors: texts of an exec, buffers of readv(2) and its like.

use super::super::quoted::quoted;
use super::netlink::netlink;
use super::number::number;
use super::structure::list;
use crate::syscall::shape::{BUFFER, Show, TEXT_BYTES, TEXTS, VECTORS};

/// Gives the memory behind a pointer.
pub(super) type Memory<'m, 'c> = &'m dyn Fn(usize) -> Option<&'c [u8]>;

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

/// `[{iov_base="abc", iov_len=3}, …]`: so many buffers, whose bytes are the parts from `first` on; of all no more than `bytes` bytes. Those of a netlink socket
/// hold messages of its protocol.
pub(super) fn vectors(
    table: &[u8],
    (count, first): (usize, usize),
    mut bytes: usize,
    (memory, protocol): (Memory<'_, '_>, Option<i64>),
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
            Some(text)
                if protocol
                    .is_some_and(|it| netlink(&text[..text.len().min(here)], here, it, out).is_some()) => {}
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
