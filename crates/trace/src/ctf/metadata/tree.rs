//! TSDL tokens to a tree of blocks and types: the part of the grammar that fixed layouts need; its meaning is `restore`'s matter.

use super::cursor::{Blocks, Cursor, Entry, Length};
use super::lexer::Token;
use crate::error::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// A type, aliases already resolved.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Integer(Integer),
    /// A floating-point number, by its bytes.
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

/// `trace { … };` and the like.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) entries: HashMap<String, Entry<Type>>,
}

/// All blocks of a metadata text.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut parser = Parser {
        cursor: Cursor::new(text)?,
        aliases: HashMap::new(),
        depth: 0,
    };
    let mut blocks = Vec::new();
    while let Some(token) = parser.cursor.peek() {
        match token {
            Token::Word(word) if word == "typealias" => parser.alias()?,
            Token::Word(_) => blocks.push(parser.block()?),
            _ => {
                return parser
                    .cursor
                    .fail("expected a block such as trace, stream or event");
            }
        }
    }
    Ok(blocks)
}

struct Parser {
    cursor: Cursor,
    aliases: HashMap<String, Type>,
    depth: u32,
}

impl Blocks for Parser {
    type Type = Type;

    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }

    fn depth(&mut self) -> &mut u32 {
        &mut self.depth
    }

    fn type_itself(&mut self) -> Result<Type> {
        self.ty_inside()
    }
}

impl Parser {
    fn block(&mut self) -> Result<Block> {
        let line = self.cursor.line();
        let name = self.cursor.word()?;
        self.cursor.expect('{')?;
        let mut entries = HashMap::new();
        while !self.cursor.accept('}') {
            let (key, entry) = self.entry()?;
            entries.insert(key, entry);
        }
        self.cursor.expect(';')?;
        Ok(Block { name, line, entries })
    }

    fn alias(&mut self) -> Result<()> {
        self.cursor.skip();
        let ty = self.ty()?;
        if matches!(ty, Type::Struct(_)) {
            // Structures of structures by name could be as deep, and as large, as a text is long.
            return self
                .cursor
                .fail("a name for a structure, which Kestrel does not write");
        }
        self.cursor.expect('≔')?;
        let name = self.cursor.word()?;
        self.cursor.expect(';')?;
        self.aliases.insert(name, ty);
        Ok(())
    }

    fn ty_inside(&mut self) -> Result<Type> {
        if self.cursor.accept_word("integer") {
            Ok(Type::Integer(self.integer()?))
        } else if self.cursor.accept_word("floating_point") {
            self.float()
        } else if self.cursor.accept_word("struct") {
            self.structure()
        } else if self.cursor.accept_word("enum") {
            self.enumeration()
        } else {
            let name = self.cursor.word()?;
            match self.aliases.get(&name) {
                Some(ty) => Ok(ty.clone()),
                None => {
                    self.cursor.back();
                    self.cursor
                        .fail(format!("{name} is not a type that Kestrel writes"))
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
        self.cursor.expect('{')?;
        while !self.cursor.accept('}') {
            let key = self.cursor.word()?;
            self.cursor.expect('=')?;
            match (key.as_str(), self.cursor.value::<Type>()?) {
                ("size", Entry::Number(bits @ 1..=64)) => integer.bits = bits as u64,
                ("signed", Entry::Path(word)) => integer.signed = word == "true",
                ("signed", Entry::Number(number)) => integer.signed = number != 0,
                ("base", Entry::Number(base @ (2 | 8 | 10 | 16))) => integer.base = base as u64,
                ("encoding", Entry::Path(word)) => integer.text = word != "none",
                ("align", Entry::Number(align @ 1..=64)) => integer.align = align as u64,
                ("map" | "byte_order", Entry::Path(_)) => {}
                _ => return self.cursor.fail(format!("unexpected {key} of an integer")),
            }
            self.cursor.expect(';')?;
        }
        Ok(integer)
    }

    fn float(&mut self) -> Result<Type> {
        let (mut exponent, mut mantissa) = (0, 0);
        self.cursor.expect('{')?;
        while !self.cursor.accept('}') {
            let key = self.cursor.word()?;
            self.cursor.expect('=')?;
            match (key.as_str(), self.cursor.value::<Type>()?) {
                ("exp_dig", Entry::Number(digits)) => exponent = digits,
                ("mant_dig", Entry::Number(digits)) => mantissa = digits,
                ("align", Entry::Number(_)) | ("byte_order", Entry::Path(_)) => {}
                _ => {
                    return self
                        .cursor
                        .fail(format!("unexpected {key} of a floating-point number"));
                }
            }
            self.cursor.expect(';')?;
        }
        self.cursor.float_size(exponent, mantissa).map(Type::Float)
    }

    fn structure(&mut self) -> Result<Type> {
        let mut fields = Vec::new();
        self.cursor.expect('{')?;
        while !self.cursor.accept('}') {
            let ty = self.ty()?;
            let name = self.cursor.word()?;
            let ty = self.lengths(ty)?;
            self.cursor.expect(';')?;
            fields.push((name, ty));
        }
        if self.cursor.accept_word("align") {
            self.cursor.expect('(')?;
            self.cursor.number()?;
            self.cursor.expect(')')?;
        }
        Ok(Type::Struct(fields.into()))
    }

    /// The type of a field, by what stands behind its name.
    fn lengths(&mut self, element: Type) -> Result<Type> {
        let arrays = self.cursor.lengths()?.into_iter().rev();
        Ok(arrays.fold(element, |ty, length| Type::Array(Box::new(ty), length)))
    }

    fn enumeration(&mut self) -> Result<Type> {
        self.cursor.expect(':')?;
        let Type::Integer(container) = self.ty()? else {
            return self.cursor.fail("an enumeration that is not one of integers");
        };
        let mut names = Vec::new();
        self.cursor.expect('{')?;
        loop {
            if self.cursor.accept('}') {
                return Ok(Type::Enumeration(container, names));
            }
            let name = match self.cursor.peek() {
                Some(Token::Text(text)) => text.clone(),
                Some(Token::Word(word)) => word.clone(),
                _ => return self.cursor.fail("expected a name of a value"),
            };
            self.cursor.skip();
            self.cursor.expect('=')?;
            names.push((self.cursor.number()? as i64, name));
            if self.cursor.is('…') {
                return self
                    .cursor
                    .fail("a range of values, which Kestrel does not write");
            }
            if !self.cursor.is('}') {
                self.cursor.expect(',')?;
            }
        }
    }
}
