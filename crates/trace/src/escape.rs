//! Untrusted text on a terminal: characters that would move the cursor, end the line, or turn the direction of reading are escaped.
//!
//! Names of threads, strings of programs, names of events in other people's traces, file names: their author may have chosen `\e]0;…`, a newline that
//! forges a line, or U+202E, behind which a line reads otherwise than it is. All text that is shown goes through here.

use std::borrow::Cow;

/// Whether a character does more on a terminal than being shown: controls (C0, DEL, C1), line and paragraph separators, and marks of
/// bidirectional text.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The length of the escape sequence at the start of a text, if it does nothing but set a colour.
pub fn colour_length(text: &[u8]) -> Option<usize> {
    let numbers = text.strip_prefix(b"\x1b[")?;
    let end = numbers.iter().position(|c| !c.is_ascii_digit() && *c != b';')?;
    (numbers.get(end) == Some(&b'm')).then_some(end + 3)
}

/// Appends untrusted text in the output of a program: ends of lines, tabs and colours are kept, other control characters are
/// escaped.
pub(crate) fn escape_in_output(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let kept = match first {
            b'\n' | b'\t' => 1,
            b'\x1b' => colour_length(rest).unwrap_or(0),
            _ => 0,
        };
        let is_special = |byte: &u8| matches!(byte, b'\n' | b'\t' | b'\x1b');
        let plain = rest[1..]
            .iter()
            .position(is_special)
            .map_or(rest.len(), |at| at + 1);
        let (this, after) = rest.split_at(if kept > 0 { kept } else { plain });
        match kept > 0 {
            true => out.extend_from_slice(this),
            false => escape(this, out),
        }
        rest = after;
    }
}

/// Appends untrusted bytes as text: unsafe characters and bytes that are no UTF-8 as `\x1b`, `\u202e`.
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

/// Untrusted bytes as they may be shown, as text.
pub fn shown_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return shown(text);
    }
    let mut out = Vec::new();
    escape(bytes, &mut out);
    // Escapes of bytes are text.
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// An untrusted text as it may be shown.
pub fn shown(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if plain || !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::new();
    escape(text.as_bytes(), &mut out);
    // Escapes of text are text.
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_keep_their_lines_and_colours() {
        for (text, wanted) in [
            ("a\nb\tc\n", "a\nb\tc\n"),
            ("\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
            ("a\x1b[2Jb\x1b[1;3", r"a\x1b[2Jb\x1b[1;3"),
            ("\x1b\x1b[m\x1b", "\\x1b\x1b[m\\x1b"),
            ("größe\u{9b}2J\r", "größe\\x9b2J\\x0d"),
        ] {
            let mut out = Vec::new();
            escape_in_output(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{text:?}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
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
