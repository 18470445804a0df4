//! One thread's name: the bytes that the kernel keeps, which need not be UTF-8.

use crate::escape::shown_bytes;

/// A name of a thread: any bytes but NUL, as `prctl(PR_SET_NAME)` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The bytes as text; where they are not UTF-8, as lines for people show them (`\xff`), so that two names are two texts.
    text: String,
    /// The bytes, where the text is not the same.
    bytes: Option<Box<[u8]>>,
}

impl Name {
    /// The name as text; bytes that are not UTF-8 are spelled out (`\xff`).
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name as the kernel has it.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Appends the name as a line of a file has it: one name, one line.
    pub(super) fn write_line(&self, out: &mut Vec<u8>) {
        let kept = |byte: &u8| match byte {
            b'\n' | b'\r' => b'?',
            byte => *byte,
        };
        out.extend(self.bytes().iter().map(kept));
        out.push(b'\n');
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { text, bytes: None },
            Err(error) => Self {
                text: shown_bytes(error.as_bytes()).into_owned(),
                bytes: Some(error.into_bytes().into()),
            },
        }
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self { text, bytes: None }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The lines of a file with names, which need not be UTF-8.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = (!text.is_empty()).then(|| text.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten()
}

/// The number that a line begins with, and what stands behind its space.
pub(super) fn number(line: &[u8]) -> Option<(u64, &[u8])> {
    let at = line.iter().position(|byte| *byte == b' ')?;
    let number = std::str::from_utf8(&line[..at]).ok()?.parse().ok()?;
    Some((number, &line[at + 1..]))
}
