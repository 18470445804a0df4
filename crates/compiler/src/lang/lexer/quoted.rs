//! Texts in double quotes and their escapes.

use kestrel_trace::print::raw;

/// Why a text could not be read.
pub(in crate::lang) enum QuoteTrouble {
    /// No closing quote on its line.
    Open,
    /// An unknown escape of `bytes` bytes at `at`; the text ends before `end`.
    Escape { at: usize, bytes: usize, end: usize },
}

/// A text in double quotes at the start of `source`: the text, and how many bytes it takes with its quotes. Bytes of escapes
/// that are not UTF-8 are kept as [`raw`] keeps them.
pub(in crate::lang) fn read_quoted(source: &str) -> Result<(String, usize), QuoteTrouble> {
    let mut text = Vec::new();
    let mut trouble = None;
    let mut chars = source.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                return match trouble {
                    None => Ok((raw::to_text(text), at + 1)),
                    Some((start, bytes)) => Err(QuoteTrouble::Escape {
                        at: start,
                        bytes,
                        end: at + 1,
                    }),
                };
            }
            '\n' => return Err(QuoteTrouble::Open),
            '\\' => match read_escape(&source[at + 1..]) {
                Some((byte, bytes)) => {
                    text.push(byte);
                    for _ in 0..bytes {
                        chars.next();
                    }
                }
                None => {
                    let bytes = chars.next().map_or(1, |(_, c)| 1 + c.len_utf8());
                    trouble.get_or_insert((at, bytes));
                }
            },
            c => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err(QuoteTrouble::Open)
}

/// Value of an escape, and how many (ASCII) characters it has after its backslash.
fn read_escape(rest: &str) -> Option<(u8, usize)> {
    let digits = |text: &str, radix: u32, most: usize| {
        let end = text.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let value = u8::from_str_radix(text.get(..end)?, radix).ok()?;
        Some((value, end))
    };
    match rest.chars().next()? {
        'n' => Some((b'\n', 1)),
        't' => Some((b'\t', 1)),
        'r' => Some((b'\r', 1)),
        '\\' => Some((b'\\', 1)),
        '"' => Some((b'"', 1)),
        'x' => digits(&rest[1..], 16, 2).map(|(c, n)| (c, n + 1)),
        '0'..='7' => digits(rest, 8, 3),
        _ => None,
    }
}
