//! Vectors: strings of an exec, buffers of readv(2) and its like.

use super::super::quoted::quoted;
use super::netlink::netlink;
use super::number::number;
use super::structure::list;
use crate::syscall::shape::{BUFFER, Show, TEXT_BYTES, Width};

/// Gives the memory behind a pointer.
pub(super) type Memory<'m, 'c> = &'m dyn Fn(usize) -> Option<&'c [u8]>;

/// Addresses up to the first null pointer; whether that was found.
fn words((bytes, width): (&[u8], Width)) -> (usize, bool) {
    let words = bytes.chunks_exact(width.bytes());
    match words.clone().position(|word| word.iter().all(|byte| *byte == 0)) {
        Some(end) => (end, true),
        None => (words.len(), false),
    }
}

/// `["ls", "-l"]`.
pub(super) fn strings(bytes: (&[u8], Width), memory: Memory<'_, '_>, out: &mut String) {
    let (count, ended) = words(bytes);
    let shown = count.min(bytes.1.strings());
    list(
        (shown, count + usize::from(!ended)),
        out,
        |index, out| match memory(index + 1) {
            Some(text) => quoted(text, text.len() >= TEXT_BYTES as usize, out),
            // An empty text has no bytes, and what cannot be read is not there.
            None => out.push_str("\"\""),
        },
    );
}

/// `0x7ffc… /* 23 vars */`.
pub(super) fn count(bytes: (&[u8], Width), address: i64, out: &mut String) {
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
    (table, width): (&[u8], Width),
    (count, first): (usize, usize),
    mut bytes: usize,
    (memory, protocol): (Memory<'_, '_>, Option<i64>),
    out: &mut String,
) -> Option<()> {
    let word = |index: usize| width.read(table, index * width.bytes()).unwrap_or_default();
    let read = (table.len() / (2 * width.bytes())).min(count);
    list((read, count), out, |index, out| {
        let length = usize::try_from(word(2 * index + 1)).unwrap_or(usize::MAX);
        let here = length.min(bytes);
        bytes -= here;
        out.push_str("{iov_base=");
        match memory(first + index).filter(|_| index < width.vectors()) {
            Some(text)
                if protocol
                    .is_some_and(|it| netlink(&text[..text.len().min(here)], here, it, out).is_some()) => {}
            Some(text) => {
                let shown = &text[..text.len().min(here).min(BUFFER as usize)];
                quoted(shown, shown.len() < here, out);
            }
            None if here == 0 => out.push_str("\"\""),
            None => number(&word(2 * index).to_le_bytes(), Show::Pointer, out),
        }
        out.push_str(&format!(", iov_len={length}}}"));
    });
    Some(())
}
