//! Position of a parser of metadata among the tokens, and the entries of blocks, which Kestrel's metadata and those of other tracers spell alike.

use super::lexer::{Token, tokens};
use crate::error::{Error, Result};

/// The tokens of a text, and the next one.
pub(crate) struct Cursor {
    tokens: Vec<(Token, u32)>,
    at: usize,
}

impl Cursor {
    /// At the first token of a text.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let tokens = tokens(text)?;
        Ok(Self { tokens, at: 0 })
    }

    /// The line of the next token; behind the last one, its line.
    pub(crate) fn line(&self) -> u32 {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(_, line)| *line)
    }

    pub(crate) fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::Metadata {
            line: self.line(),
            why: why.into(),
        })
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    /// Steps over the next token.
    pub(crate) fn skip(&mut self) {
        self.at += 1;
    }

    /// Steps back to the token before.
    pub(crate) fn back(&mut self) {
        self.at = self.at.saturating_sub(1);
    }

    pub(crate) fn is(&self, mark: char) -> bool {
        self.peek() == Some(&Token::Mark(mark))
    }

    /// Takes a mark if it is next.
    pub(crate) fn accept(&mut self, mark: char) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, mark: char) -> Result<()> {
        if self.accept(mark) {
            return Ok(());
        }
        let mark = match mark {
            '≔' => ":=".to_owned(),
            mark => mark.to_string(),
        };
        self.fail(format!("expected {mark}"))
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    /// Takes a word if it is next.
    pub(crate) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn word(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => self.fail("expected a name"),
        }
    }

    /// `packet.context`.
    pub(crate) fn path(&mut self) -> Result<String> {
        let mut path = self.word()?;
        while self.accept('.') {
            path.push('.');
            path.push_str(&self.word()?);
        }
        Ok(path)
    }

    /// A number with its sign.
    pub(crate) fn number(&mut self) -> Result<i128> {
        let negative = self.accept('-');
        if !negative {
            self.accept('+');
        }
        let Some(Token::Number(number)) = self.peek() else {
            return self.fail("expected a number");
        };
        let number = i128::from(*number);
        self.at += 1;
        Ok(if negative { -number } else { number })
    }

    /// The right side of `key = value`.
    pub(crate) fn value<T>(&mut self) -> Result<Entry<T>> {
        Ok(match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.skip();
                Entry::Text(text)
            }
            Some(Token::Word(_)) => Entry::Path(self.path()?),
            _ => Entry::Number(self.number()?),
        })
    }

    /// `[2][n]` behind a name: the first is the length of the outermost array.
    pub(crate) fn lengths(&mut self) -> Result<Vec<Length>> {
        let mut lengths = Vec::new();
        while self.accept('[') {
            lengths.push(match self.peek() {
                Some(Token::Word(_)) => Length::Field(self.path()?),
                _ => match u32::try_from(self.number()?) {
                    Ok(count) => Length::Constant(count),
                    Err(_) => return self.fail("an impossible array length"),
                },
            });
            self.expect(']')?;
            if lengths.len() > DEPTH as usize {
                return self.fail("types nested too deeply");
            }
        }
        Ok(lengths)
    }

    /// Bytes of a floating-point number by the bits of its exponent and its mantissa.
    pub(crate) fn float_size(&self, exponent: i128, mantissa: i128) -> Result<u8> {
        match (exponent, mantissa) {
            (8, 24) => Ok(4),
            (11, 53) => Ok(8),
            _ => self.fail("a floating-point number that is not of 4 or 8 bytes"),
        }
    }
}

/// Types within types that are read; guards the call stack against foreign text.
pub(crate) const DEPTH: u32 = 32;

/// Length of an array: a number, or the name of the field that has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Length {
    Constant(u32),
    Field(String),
}

/// The right side of an entry in a block; types are the parser's own.
#[derive(Clone, Debug)]
pub(crate) enum Entry<T> {
    Number(i128),
    Text(String),
    /// `le`, `clock.monotonic.value`.
    Path(String),
    Type(T),
}

/// A parser of blocks of entries.
pub(crate) trait Blocks {
    /// A type as the parser has it.
    type Type;

    fn cursor(&mut self) -> &mut Cursor;

    /// Number of types that the next one is nested in.
    fn depth(&mut self) -> &mut u32;

    /// Reads a type, however deep it is nested.
    fn type_itself(&mut self) -> Result<Self::Type>;

    /// Reads a type; no deeper than [`DEPTH`].
    fn ty(&mut self) -> Result<Self::Type> {
        if *self.depth() >= DEPTH {
            return self.cursor().fail("types are nested too deeply");
        }
        *self.depth() += 1;
        let ty = self.type_itself();
        *self.depth() -= 1;
        ty
    }

    /// Reads `key = value;` or `key := type;`.
    fn entry(&mut self) -> Result<(String, Entry<Self::Type>)> {
        let key = self.cursor().path()?;
        let entry = if self.cursor().accept('≔') {
            Entry::Type(self.ty()?)
        } else {
            self.cursor().expect('=')?;
            self.cursor().value()?
        };
        self.cursor().expect(';')?;
        Ok((key, entry))
    }
}
