//! Types as they are written in casts, `sizeof`, `offsetof` and `let`.

use super::{Parsed, Parser};
use crate::lang::ast::{SizeofOperand, TypeName, TypeSuffix, TypeTag};
use crate::lang::lexer::TokenKind;

/// Words that name a type wherever they stand.
pub(crate) const TYPE_WORDS: &[&str] = &[
    "bool", "char", "short", "int", "long", "signed", "unsigned", "void", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t",
    "uint32_t", "uint64_t", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "__u8", "__u16", "__u32",
    "__u64", "__s8", "__s16", "__s32", "__s64", "size_t", "ssize_t", "pid_t", "uid_t", "gid_t", "string",
];

/// Whether a type's name is made of the language's own words: `uint8`, `unsigned int`.
pub fn is_type_word(name: &str) -> bool {
    let first = name.split_whitespace().next();
    first.is_some_and(|first| TYPE_WORDS.contains(&first) || MANY.contains(&first))
}

/// Words of which several make one type.
pub(super) const MANY: &[&str] = &[
    "unsigned", "signed", "char", "short", "int", "long", "double", "__int128",
];

impl Parser<'_> {
    /// `struct task_struct *`, `unsigned long`, `char[16]`, `typeof($x)*`.
    pub(super) fn type_name(&mut self) -> Parsed<TypeName> {
        self.deeper(Self::type_name_inside)
    }

    fn type_name_inside(&mut self) -> Parsed<TypeName> {
        let start = self.start();
        self.height = 0;
        while self.eat_word("const") || self.eat_word("volatile") {}
        let mut ty = if self.eat_word("typeof") {
            match self.type_operand()? {
                SizeofOperand::Type(ty) => ty,
                SizeofOperand::Expr(of) => TypeName {
                    tag: None,
                    name: String::new(),
                    of: Some(Box::new(of)),
                    suffixes: Vec::new(),
                    span: self.span_from(start),
                },
            }
        } else {
            let tag = self.tag();
            let mut name = self.expect_name("the name of a type")?.node;
            while tag.is_none() && MANY.contains(&name.rsplit(' ').next().unwrap_or_default()) {
                match self.token.kind {
                    TokenKind::Word(word) if MANY.contains(&word) && name.len() < 64 => {
                        self.take();
                        name = format!("{name} {word}");
                    }
                    _ => break,
                }
            }
            TypeName {
                tag,
                name,
                of: None,
                suffixes: Vec::new(),
                span: self.span_from(start),
            }
        };
        // Expressions in brackets stand beside each other: the type is as high as the highest of them, not as all together.
        let mut height = self.height;
        loop {
            if self.eat_word("const") || self.eat_word("volatile") {
                continue;
            }
            if ty.suffixes.len() > super::HEIGHT as usize {
                return Err(self.too_deep());
            }
            if self.eat("*") {
                ty.suffixes.push(TypeSuffix::Pointer);
            } else if self.eat("[") {
                let count = match self.is("]") {
                    true => None,
                    false => Some(Box::new(self.enclosed(Self::expression)?)),
                };
                height = height.max(self.height);
                self.expect("]")?;
                ty.suffixes.push(TypeSuffix::Array(count));
            } else {
                break;
            }
        }
        self.height = height;
        ty.span = self.span_from(start);
        Ok(ty)
    }

    /// `(type)`, `(expression)`.
    pub(super) fn type_operand(&mut self) -> Parsed<SizeofOperand> {
        self.expect("(")?;
        let operand = self.enclosed(Self::type_or_expression)?;
        self.expect(")")?;
        Ok(operand)
    }

    pub(super) fn type_or_expression(&mut self) -> Parsed<SizeofOperand> {
        if self.at_type() {
            self.type_name().map(SizeofOperand::Type)
        } else {
            self.expression().map(SizeofOperand::Expr)
        }
    }

    pub(super) fn tag(&mut self) -> Option<TypeTag> {
        let tag = match self.token.kind {
            TokenKind::Word("struct") => TypeTag::Struct,
            TokenKind::Word("union") => TypeTag::Union,
            TokenKind::Word("enum") => TypeTag::Enum,
            _ => return None,
        };
        self.take();
        Some(tag)
    }

    /// Whether the opening parenthesis that is next begins a cast: `(type)` and then an operand.
    pub(super) fn at_cast(&mut self) -> bool {
        let mut at = 0;
        while matches!(self.peek(at), TokenKind::Word("const" | "volatile")) {
            at += 1;
        }
        let TokenKind::Word(first) = *self.peek(at) else {
            return false;
        };
        let sure = matches!(first, "struct" | "union" | "enum") || TYPE_WORDS.contains(&first);
        if sure {
            return true;
        }
        at += 1;
        if first == "typeof" {
            // `(typeof(x))y`: a cast where the parenthesis closes right behind.
            if *self.peek(at) != TokenKind::Sign("(") {
                return false;
            }
            at += 1;
            let mut open = 1;
            while open > 0 {
                match self.peek(at) {
                    TokenKind::Sign("(") => open += 1,
                    TokenKind::Sign(")") => open -= 1,
                    TokenKind::End | TokenKind::Sign(";") => return false,
                    _ => {}
                }
                at += 1;
            }
        }
        // A name that is not known as a type: a cast only if it cannot be anything else.
        let mut certain = first == "typeof";
        for _ in 0..8 {
            if *self.peek(at) == TokenKind::Sign("*") {
                at += 1;
                certain = certain || matches!(self.peek(at), TokenKind::Sign(")" | "*"));
            } else if *self.peek(at) != TokenKind::Sign("[") {
                break;
            } else if *self.peek(at + 1) == TokenKind::Sign("]") {
                at += 2;
                certain = true;
            } else if matches!(self.peek(at + 1), TokenKind::Integer { .. })
                && *self.peek(at + 2) == TokenKind::Sign("]")
            {
                at += 3;
            } else {
                return false;
            }
        }
        *self.peek(at) == TokenKind::Sign(")") && (certain || begins_operand(self.peek(at + 1)))
    }

    /// Whether a type that can be nothing else is next (inside `sizeof(` and `offsetof(`).
    pub(super) fn at_type(&mut self) -> bool {
        let TokenKind::Word(first) = self.token.kind else {
            return false;
        };
        matches!(first, "struct" | "union" | "enum" | "const" | "typeof")
            || (TYPE_WORDS.contains(&first) && *self.peek(0) != TokenKind::Sign("("))
            || first == "buffer" && *self.peek(0) == TokenKind::Sign("[")
            || first == "inet" && *self.peek(0) == TokenKind::Sign(")")
            || (*self.peek(0) == TokenKind::Sign("*")
                && matches!(self.peek(1), TokenKind::Sign(")" | "*" | "," | "[")))
    }
}

/// Whether a token that follows `(name)` makes it a cast: operators that also stand between operands do not.
fn begins_operand(kind: &TokenKind<'_>) -> bool {
    match kind {
        TokenKind::Word(word) => !matches!(*word, "else" | "if"),
        TokenKind::Variable(_)
        | TokenKind::Map(_)
        | TokenKind::Positional(_)
        | TokenKind::Integer { .. }
        | TokenKind::String(_) => true,
        TokenKind::Sign(sign) => *sign == "(",
        _ => false,
    }
}
