//! Bytes between quotes, as strace writes them: escapes of C, in octal.

/// Appends `"bytes"`; `cut` puts `...` behind.
pub(super) fn quoted(bytes: &[u8], cut: bool, out: &mut String) {
    out.push('"');
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x0b => out.push_str("\\v"),
            0x0c => out.push_str("\\f"),
            0x20..0x7f => out.push(char::from(*byte)),
            // A digit behind it would be taken for one of its own.
            _ if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => out.push_str(&format!("\\{byte:03o}")),
            _ => out.push_str(&format!("\\{byte:o}")),
        }
    }
    out.push_str(if cut { "\"..." } else { "\"" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_escaped_as_in_c() {
        let mut out = String::new();
        quoted(b"a\"\n\x7fE\x018\xc3", true, &mut out);
        assert_eq!(out, "\"a\\\"\\n\\177E\\0018\\303\"...");
    }
}
