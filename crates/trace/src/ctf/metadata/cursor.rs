//! Where a parser of metadata stands among the tokens: what is next, what is taken, and errors with the line.

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
}
