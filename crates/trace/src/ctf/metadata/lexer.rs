//! TSDL text to tokens with their lines; no grammar here.

use crate::error::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Word(String),
    Number(u64),
    Text(String),
    /// `:=` and `...` are one character each here: `≔` and `…`.
    Mark(char),
}

/// All tokens of `text`, each with its line (from 1).
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, u32)>> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut all = Vec::new();
    while let Some(token) = lexer.next()? {
        all.push((token, lexer.line));
    }
    Ok(all)
}

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::Metadata {
            line: self.line,
            why: why.into(),
        })
    }

    /// Takes `bytes` bytes, which end at a character's border.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count() as u32;
        self.rest = rest;
        taken
    }

    fn skip(&mut self) -> Result<()> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if self.rest.starts_with("/*") {
                match self.rest.find("*/") {
                    Some(end) => self.take(end + 2),
                    None => return self.fail("a comment that does not end"),
                };
            } else if self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Token>> {
        self.skip()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        Ok(Some(match first {
            'a'..='z' | 'A'..='Z' | '_' => Token::Word(self.word().to_owned()),
            '0'..='9' => {
                let word = self.word();
                match number(word) {
                    Some(number) => Token::Number(number),
                    None => return self.fail(format!("{word} is not a number")),
                }
            }
            // A character's constant is a text of one character.
            '"' | '\'' => Token::Text(self.text(first)?),
            '{' | '}' | '[' | ']' | '(' | ')' | '=' | ';' | ',' | '<' | '>' | '-' | '+' | '*' => {
                self.take(1);
                Token::Mark(first)
            }
            ':' | '.' => Token::Mark(self.mark()),
            _ => return self.fail(format!("unexpected character {first:?}")),
        }))
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        self.take(end.unwrap_or(self.rest.len()))
    }

    fn mark(&mut self) -> char {
        for (text, mark) in [(":=", '≔'), ("...", '…'), (":", ':'), (".", '.')] {
            if self.rest.starts_with(text) {
                self.take(text.len());
                return mark;
            }
        }
        ' '
    }

    /// A text between two of the mark it begins with.
    fn text(&mut self, mark: char) -> Result<String> {
        self.take(1);
        let mut text = Vec::new();
        loop {
            let Some(end) = self.rest.find([mark, '\\']) else {
                return self.fail("a string that does not end");
            };
            text.extend_from_slice(self.take(end).as_bytes());
            if self.take(1) != "\\" {
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            text.push(self.escape()?);
        }
    }

    /// The byte that an escape stands for: a character that is not of ASCII has one for each of its bytes.
    fn escape(&mut self) -> Result<u8> {
        if let Some(code) = self.code(8, 3) {
            return self.byte(code);
        }
        let Some(c) = self.rest.chars().next() else {
            return self.fail("a string that does not end");
        };
        self.take(c.len_utf8());
        Ok(match c {
            'n' => b'\n',
            't' => b'\t',
            'r' => b'\r',
            'a' => 0x07,
            'b' => 0x08,
            'f' => 0x0c,
            'v' => 0x0b,
            '"' => b'"',
            '\\' => b'\\',
            '\'' => b'\'',
            '?' => b'?',
            'x' => {
                let code = self.code(16, 2).unwrap_or(u32::MAX);
                return self.byte(code);
            }
            _ => return self.fail(format!("unknown escape \\{c}")),
        })
    }

    /// Takes digits of a byte's code, so many at most; none where there are none.
    fn code(&mut self, radix: u32, most: usize) -> Option<u32> {
        let is_digit = |c: &char| c.is_digit(radix);
        let digits = self.rest.chars().take(most).take_while(is_digit).count();
        u32::from_str_radix(self.take(digits), radix).ok()
    }

    fn byte(&self, code: u32) -> Result<u8> {
        u8::try_from(code).or_else(|_| self.fail("an escape that is no byte"))
    }
}

fn number(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16).ok()
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8).ok()
    } else {
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn escapes_are_bytes_of_a_text() {
        let text = |written: &str| match tokens(written).unwrap().remove(0).0 {
            Token::Text(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text(r#""caf\xc3\xa9 \303\251 é""#), "café é é");
        assert_eq!(text(r#""\x41\101\n\"""#), "AA\n\"");
        assert_eq!(text(r#""\xc3 alone""#), "\u{fffd} alone");
        assert_eq!(text(r"'\''"), "'");
        for wrong in [r#""\777""#, r#""\x""#, r#""\q""#, r#""\"#] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
    }
}
