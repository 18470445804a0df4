//! Text of others on a terminal: what would move the cursor, end the line, or turn the direction of reading is spelled out.
//!
//! Names of threads, strings of programs, names of events in other people's traces, file names: their author may have chosen `\e]0;…`, a newline that
//! forges a line, or U+202E, behind which a line reads otherwise than it is. All that is shown as text goes through here.

use std::borrow::Cow;

/// Whether a character does something to a terminal beside standing there: controls (C0, DEL, C1), line and paragraph separators, and what directs
/// bidirectional text.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Appends bytes of others as text: unsafe characters and bytes that are no UTF-8 as `\x1b`, `\u202e`.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                c if !is_unsafe(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                c if (c as u32) < 0x100 => out.extend_from_slice(format!("\\x{:02x}", c as u32).as_bytes()),
                c => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

/// A text of others as it may be shown.
pub fn shown(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if plain || !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::new();
    escape(text.as_bytes(), &mut out);
    // What is escaped is text as what it was made of is.
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        for (text, wanted) in [
            ("bash", "bash"),
            ("größe 日本", "größe 日本"),
            ("\x1b]0;x\x07red", r"\x1b]0;x\x07red"),
            ("a\nb\rc\td", r"a\x0ab\x0dc\x09d"),
            ("\u{9b}31m\u{7f}", r"\x9b31m\x7f"),
            (
                "abc\u{202e}fdp.exe\u{2069}\u{200f}",
                r"abc\u202efdp.exe\u2069\u200f",
            ),
            ("a\u{2028}b", r"a\u2028b"),
        ] {
            assert_eq!(shown(text), wanted);
        }
        let mut out = Vec::new();
        escape(b"a\x9bb\xff\x1b", &mut out);
        assert_eq!(out, br"a\x9bb\xff\x1b");
    }
}
