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
            '"' => Token::Text(self.text()?),
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

    fn text(&mut self) -> Result<String> {
        self.take(1);
        let mut text = String::new();
        loop {
            let Some(end) = self.rest.find(['"', '\\']) else {
                return self.fail("a string that does not end");
            };
            text.push_str(self.take(end));
            if self.take(1) == "\"" {
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char> {
        let digits = self
            .rest
            .bytes()
            .take(3)
            .take_while(|b| matches!(b, b'0'..=b'7'))
            .count();
        if digits > 0 {
            let code = u32::from_str_radix(self.take(digits), 8).unwrap_or(0);
            return match char::from_u32(code) {
                Some(c) => Ok(c),
                None => self.fail("an escape that is no character"),
            };
        }
        let Some(c) = self.rest.chars().next() else {
            return self.fail("a string that does not end");
        };
        self.take(c.len_utf8());
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            '"' | '\\' | '\'' | '?' => c,
            _ => return self.fail(format!("unknown escape \\{c}")),
        })
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
