//! Buffers that calls are given or fill, and strings: bytes between quotes.

use super::call::{Argument, Call, End};
use super::memory::netlink;
use super::moment::EXIT_TEXT;
use super::pointer::pointer;
use super::quoted::quoted;
use crate::syscall::ArgumentKind;
use crate::syscall::shape::BUFFER;

/// A path, or another name, up to its NUL.
pub(super) fn path(call: &Call, argument: Argument<'_>, out: &mut String) {
    match call.text(argument.place) {
        Some(text) if argument.value != 0 => quoted(text, text.len() >= EXIT_TEXT, out),
        _ => pointer(argument.value, out),
    }
}

/// Bytes that a call was given or has filled.
pub(super) fn buffer(call: &Call, argument: Argument<'_>, out: &mut String) {
    let length = match (argument.parameter.kind, call.end) {
        (Some(ArgumentKind::InBuffer(place)), _) => call.argument(usize::from(place)),
        (_, End::Returned(length)) => Some(length),
        _ => None,
    };
    let length = length.and_then(|length| usize::try_from(length).ok());
    let (Some(bytes), Some(length)) = (call.text(argument.place), length) else {
        return pointer(argument.value, out);
    };
    // Without room, attributes of files are measured and not filled.
    let measured =
        call.signature.own_name().contains("xattr") && call.argument(argument.place + 1) == Some(0);
    if argument.value == 0 || measured || bytes.is_empty() && length > 0 {
        return pointer(argument.value, out);
    }
    let text = &bytes[..bytes.len().min(length)];
    if let Some(protocol) = call.netlink
        && netlink(text, length, protocol, out).is_some()
    {
        return;
    }
    match argument.parameter.kind {
        // The length may count the NUL.
        Some(ArgumentKind::OutPath) => {
            let text = text.strip_suffix(b"\0").unwrap_or(text);
            quoted(text, text.len() + 1 < length, out);
        }
        _ => {
            let shown = &text[..text.len().min(BUFFER as usize)];
            quoted(shown, shown.len() < length, out);
        }
    }
}
