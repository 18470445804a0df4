//! TSDL tokens to a tree of blocks and types: the part of the grammar that fixed layouts need; its meaning is `restore`'s matter.

use super::lexer::{Token, tokens};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A type, aliases already resolved.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Integer(Integer),
    /// So many bytes.
    Float(u8),
    Enumeration(Integer, Vec<(i64, String)>),
    Struct(Arc<[(String, Type)]>),
    Array(Box<Type>, Length),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Integer {
    pub(super) bits: u64,
    pub(super) align: u64,
    pub(super) signed: bool,
    pub(super) base: u64,
    pub(super) text: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Length {
    Constant(u32),
    Field(String),
}

/// The right side of an entry in a block.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Number(i128),
    Text(String),
    /// `le`, `clock.monotonic.value`.
    Path(String),
    Type(Type),
}

/// `trace { … };` and the like.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) entries: HashMap<String, Entry>,
}

/// All blocks of a metadata text.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        aliases: HashMap::new(),
        depth: 0,
    };
    let mut blocks = Vec::new();
    while let Some(token) = parser.peek() {
        match token {
            Token::Word(word) if word == "typealias" => parser.alias()?,
            Token::Word(_) => blocks.push(parser.block()?),
            _ => return parser.fail("expected a block such as trace, stream or event"),
        }
    }
    Ok(blocks)
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    aliases: HashMap<String, Type>,
    depth: u32,
}

/// Types within types that are still read; guards the call stack against foreign text.
const DEPTH: u32 = 32;

impl Parser {
    fn line(&self) -> u32 {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(_, line)| *line)
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::Metadata {
            line: self.line(),
            why: why.into(),
        })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn is(&self, mark: char) -> bool {
        self.peek() == Some(&Token::Mark(mark))
    }

    fn accept(&mut self, mark: char) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: char) -> Result<()> {
        if self.accept(mark) {
            return Ok(());
        }
        let mark = match mark {
            '≔' => ":=".to_owned(),
            mark => mark.to_string(),
        };
        self.fail(format!("expected {mark}"))
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self) -> Result<String> {
        match self.tokens.get(self.at) {
            Some((Token::Word(word), _)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => self.fail("expected a name"),
        }
    }

    fn path(&mut self) -> Result<String> {
        let mut path = self.word()?;
        while self.accept('.') {
            path.push('.');
            path.push_str(&self.word()?);
        }
        Ok(path)
    }

    fn number(&mut self) -> Result<i128> {
        let negative = self.accept('-');
        match self.peek() {
            Some(Token::Number(number)) => {
                let number = i128::from(*number);
                self.at += 1;
                Ok(if negative { -number } else { number })
            }
            _ => self.fail("expected a number"),
        }
    }

    fn block(&mut self) -> Result<Block> {
        let line = self.line();
        let name = self.word()?;
        self.expect('{')?;
        let mut entries = HashMap::new();
        while !self.accept('}') {
            let key = self.path()?;
            let entry = if self.accept('≔') {
                Entry::Type(self.ty()?)
            } else {
                self.expect('=')?;
                self.entry()?
            };
            self.expect(';')?;
            entries.insert(key, entry);
        }
        self.expect(';')?;
        Ok(Block { name, line, entries })
    }

    fn entry(&mut self) -> Result<Entry> {
        Ok(match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Entry::Text(text)
            }
            Some(Token::Word(_)) => Entry::Path(self.path()?),
            _ => Entry::Number(self.number()?),
        })
    }

    fn alias(&mut self) -> Result<()> {
        self.at += 1;
        let ty = self.ty()?;
        if matches!(ty, Type::Struct(_)) {
            // Structures of structures by name could be as deep, and as large, as a text is long.
            return self.fail("a name for a structure, which Kestrel does not write");
        }
        self.expect('≔')?;
        let name = self.word()?;
        self.expect(';')?;
        self.aliases.insert(name, ty);
        Ok(())
    }

    fn ty(&mut self) -> Result<Type> {
        if self.depth >= DEPTH {
            return self.fail("types nested too deeply");
        }
        self.depth += 1;
        let ty = self.ty_inside();
        self.depth -= 1;
        ty
    }

    fn ty_inside(&mut self) -> Result<Type> {
        if self.accept_word("integer") {
            Ok(Type::Integer(self.integer()?))
        } else if self.accept_word("floating_point") {
            self.float()
        } else if self.accept_word("struct") {
            self.structure()
        } else if self.accept_word("enum") {
            self.enumeration()
        } else {
            let name = self.word()?;
            match self.aliases.get(&name) {
                Some(ty) => Ok(ty.clone()),
                None => {
                    self.at -= 1;
                    self.fail(format!("{name} is not a type that Kestrel writes"))
                }
            }
        }
    }

    fn integer(&mut self) -> Result<Integer> {
        let mut integer = Integer {
            bits: 0,
            align: 0,
            signed: false,
            base: 10,
            text: false,
        };
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.word()?;
            self.expect('=')?;
            match (key.as_str(), self.entry()?) {
                ("size", Entry::Number(bits @ 1..=64)) => integer.bits = bits as u64,
                ("signed", Entry::Path(word)) => integer.signed = word == "true",
                ("signed", Entry::Number(number)) => integer.signed = number != 0,
                ("base", Entry::Number(base @ (2 | 8 | 10 | 16))) => integer.base = base as u64,
                ("encoding", Entry::Path(word)) => integer.text = word != "none",
                ("align", Entry::Number(align @ 1..=64)) => integer.align = align as u64,
                ("map" | "byte_order", Entry::Path(_)) => {}
                _ => return self.fail(format!("unexpected {key} of an integer")),
            }
            self.expect(';')?;
        }
        Ok(integer)
    }

    fn float(&mut self) -> Result<Type> {
        let (mut exponent, mut mantissa) = (0, 0);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.word()?;
            self.expect('=')?;
            match (key.as_str(), self.entry()?) {
                ("exp_dig", Entry::Number(digits)) => exponent = digits,
                ("mant_dig", Entry::Number(digits)) => mantissa = digits,
                ("align", Entry::Number(_)) | ("byte_order", Entry::Path(_)) => {}
                _ => return self.fail(format!("unexpected {key} of a floating-point number")),
            }
            self.expect(';')?;
        }
        match (exponent, mantissa) {
            (8, 24) => Ok(Type::Float(4)),
            (11, 53) => Ok(Type::Float(8)),
            _ => self.fail("a floating-point number that is not of 4 or 8 bytes"),
        }
    }

    fn structure(&mut self) -> Result<Type> {
        let mut fields = Vec::new();
        self.expect('{')?;
        while !self.accept('}') {
            let ty = self.ty()?;
            let name = self.word()?;
            let ty = self.lengths(ty)?;
            self.expect(';')?;
            fields.push((name, ty));
        }
        if self.accept_word("align") {
            self.expect('(')?;
            self.number()?;
            self.expect(')')?;
        }
        Ok(Type::Struct(fields.into()))
    }

    /// `[2][3]` after a name: the first is the outermost.
    fn lengths(&mut self, element: Type) -> Result<Type> {
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
        let arrays = lengths.into_iter().rev();
        Ok(arrays.fold(element, |ty, length| Type::Array(Box::new(ty), length)))
    }

    fn enumeration(&mut self) -> Result<Type> {
        self.expect(':')?;
        let Type::Integer(container) = self.ty()? else {
            return self.fail("an enumeration that is not one of integers");
        };
        let mut names = Vec::new();
        self.expect('{')?;
        loop {
            if self.accept('}') {
                return Ok(Type::Enumeration(container, names));
            }
            let name = match self.peek() {
                Some(Token::Text(text)) => text.clone(),
                Some(Token::Word(word)) => word.clone(),
                _ => return self.fail("expected a name of a value"),
            };
            self.at += 1;
            self.expect('=')?;
            names.push((self.number()? as i64, name));
            if self.is('…') {
                return self.fail("a range of values, which Kestrel does not write");
            }
            if !self.is('}') {
                self.expect(',')?;
            }
        }
    }
}
