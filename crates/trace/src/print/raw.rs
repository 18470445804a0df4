//! Bytes that are not UTF-8 inside of a `String`: `"\xff"` in a program is one byte, and strings of programs are `String`s.
//!
//! Such a byte is kept as one of the last 128 characters of Unicode's last private plane (U+10FF80 to U+10FFFF), which no text uses.

use std::borrow::Cow;

/// The character of byte 0 if there were one; those of 0x80 to 0xff are in use.
const FIRST: u32 = 0x0010_ff00;

/// The bytes as a text: what is not UTF-8 byte by byte as private characters.
pub fn to_text(bytes: Vec<u8>) -> String {
    let kept = |byte: &u8| char::from_u32(FIRST + u32::from(*byte)).unwrap_or(char::REPLACEMENT_CHARACTER);
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let mut text = String::new();
        for chunk in error.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(kept));
        }
        text
    })
}

/// The byte that a character stands for, if it is one of those.
pub fn byte(c: char) -> Option<u8> {
    match (c as u32).checked_sub(FIRST) {
        Some(byte @ 0x80..) => u8::try_from(byte).ok(),
        _ => None,
    }
}

/// The bytes that a text of [`to_text`] was made of.
pub fn to_bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.chars().any(|c| byte(c).is_some()) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn utf8_is_kept_as_text_and_other_bytes_come_back() {
        assert_eq!(to_text(b"\xe2\x82\xac".to_vec()), "€");
        assert_eq!(*to_bytes("größe"), *"größe".as_bytes());
        assert_eq!(to_text(b"a\xff".to_vec()), "a\u{10ffff}");
        assert_eq!(*to_bytes("a\u{10ff80}"), *b"a\x80");
        assert_eq!((byte('\u{10ff80}'), byte('€')), (Some(0x80), None));
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            // No program writes the private characters themselves.
            prop_assume!(String::from_utf8_lossy(&bytes).chars().all(|c| (c as u32) < FIRST));
            prop_assert_eq!(to_bytes(&to_text(bytes.clone())).into_owned(), bytes);
        }
    }
}
