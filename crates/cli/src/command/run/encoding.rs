//! Texts of scripts, which need not be UTF-8.

use kestrel_trace::print::raw;

/// A script's bytes as its text: what is not UTF-8 (comments and strings of other encodings) is kept as [`raw`] keeps it, and the mark that some editors
/// put before UTF-8 is no part of it.
pub(super) fn decoded(mut bytes: Vec<u8>) -> String {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    raw::to_text(bytes)
}
