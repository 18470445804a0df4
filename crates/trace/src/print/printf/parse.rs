//! A format's text to its pieces; any text is one.

use super::{Conversion, Form, Format, Length, Letter, Piece};

/// Widths that are taken: a wider column is none.
const WIDEST: usize = 4096;

impl Format {
    /// Parses a format. What is no conversion stands for itself.
    pub fn parse(format: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(rest) = format.get(at..).filter(|rest| !rest.is_empty()) {
            let percent = rest.find('%').unwrap_or(rest.len());
            plain += &rest[..percent];
            at += percent;
            let Some(found) = ParsedConversion::at(&format[at..]) else {
                // A percent sign that begins no conversion, or the end.
                let c = format[at..].chars().next();
                plain.extend(c);
                at += c.map_or(0, char::len_utf8);
                continue;
            };
            let end = at + found.bytes;
            match found.letter {
                None => plain.push('%'),
                Some(letter) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Argument(Conversion {
                        at: at..end,
                        left: found.left,
                        plus: found.plus,
                        alternate: found.alternate,
                        zero: found.zero && !found.left,
                        width: found.width,
                        length: found.length,
                        letter,
                    }));
                }
            }
            at = end;
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self { pieces }
    }
}

/// A conversion at the start of a text.
struct ParsedConversion {
    bytes: usize,
    left: bool,
    plus: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    length: Length,
    /// Letter of the conversion; `None` for `%%`.
    letter: Option<Letter>,
}

impl ParsedConversion {
    fn at(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('%')?;
        let (mut left, mut plus, mut alternate, mut zero) = (false, false, false, false);
        loop {
            let flag = match rest.as_bytes().first()? {
                b'-' => &mut left,
                b'+' => &mut plus,
                b'#' => &mut alternate,
                b'0' => &mut zero,
                b' ' => &mut false,
                _ => break,
            };
            *flag = true;
            rest = &rest[1..];
        }
        let (width, behind) = number(rest);
        let behind = match behind.strip_prefix('.') {
            Some(precision) => number(precision).1,
            None => behind,
        };
        let (length, behind) = length(behind);
        let (letter, behind) = letter(behind)?;
        Some(Self {
            bytes: text.len() - behind.len(),
            left,
            plus,
            alternate,
            zero,
            width,
            length,
            letter,
        })
    }
}

/// The number at the start of a text, 0 where there is none, or a star, which stands for none.
fn number(text: &str) -> (usize, &str) {
    if let Some(rest) = text.strip_prefix('*') {
        return (0, rest);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = match digits {
        "" => 0,
        digits => digits.parse().unwrap_or(WIDEST).min(WIDEST),
    };
    (number, rest)
}

fn length(text: &str) -> (Length, &str) {
    let end = text
        .find(|c| !matches!(c, 'h' | 'l' | 'L' | 'j' | 'z' | 't'))
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let length = match word {
        "hh" => Length::Char,
        "h" => Length::Short,
        "l" | "ll" | "j" | "z" | "t" => Length::Long,
        _ => Length::Int,
    };
    (length, rest)
}

/// Conversion letter at the start of a text; `%` is none.
fn letter(text: &str) -> Option<(Option<Letter>, &str)> {
    let several = [
        ("rh", Letter::Buffer(Form::Spaced)),
        ("rx", Letter::Buffer(Form::Escaped)),
        ("gr", Letter::PageFlags),
    ];
    for (letters, letter) in several {
        if let Some(rest) = text.strip_prefix(letters) {
            return Some((Some(letter), rest));
        }
    }
    let letter = match text.chars().next()? {
        '%' => return Some((None, &text[1..])),
        'd' | 'i' => Letter::Signed,
        'u' => Letter::Unsigned,
        'o' => Letter::Octal,
        'x' => Letter::Hexadecimal { upper: false },
        'X' => Letter::Hexadecimal { upper: true },
        'c' => Letter::Character,
        'p' => Letter::Pointer,
        's' => Letter::Text,
        'r' => Letter::Buffer(Form::Text),
        c @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'a' | 'A' | 'n') => Letter::Unsupported(c),
        _ => return None,
    };
    Some((Some(letter), &text[1..]))
}
