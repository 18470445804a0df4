//! Parses C type definitions: `struct`, `union`, `enum` and `typedef` at the top of a text.

use super::{Parsed, Parser};
use crate::lang::ast::{
    CBody, CShape, CType, CTypeUse, Declarator, Definition, Expr, Span, Spanned, TypeTag,
};
use crate::lang::lexer::TokenKind;
use crate::lang::parse::type_name::MANY;

/// Words before a type or a name that say nothing about its layout.
const QUALIFIERS: &[&str] = &[
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "static",
    "extern",
    "register",
    "inline",
    "__extension__",
];

/// Attributes that change a C layout.
#[derive(Default)]
struct Attributes {
    packed: bool,
    align: Option<Box<Expr>>,
}

impl Parser<'_> {
    /// One declaration, up to its semicolon, which a type's body makes needless.
    pub(super) fn definition(&mut self) -> Parsed<Definition> {
        let start = self.start();
        let naming = self.eat_word("typedef");
        let mut types = Vec::new();
        let base = self.base(&mut types)?;
        let mut names = Vec::new();
        if naming {
            self.declarators(&base, &mut names)?;
        }
        let ended = self.eat(";");
        if !ended && (naming || types.is_empty()) {
            return Err(self.unexpected("\";\""));
        }
        Ok(Definition {
            types,
            names,
            span: self.span_from(start),
        })
    }

    /// The type that stands before the names of a declaration; bodies in it are added to `types`.
    fn base(&mut self, types: &mut Vec<CType>) -> Parsed<CTypeUse> {
        let start = self.start();
        let mut attributes = Attributes::default();
        self.qualifiers(&mut attributes)?;
        let (tag, name) = if let Some(tag) = self.tag() {
            self.qualifiers(&mut attributes)?;
            let name = match self.token.kind {
                TokenKind::Word(_) => self.expect_name("the name of a type")?,
                // An anonymous type is named by its position in the source, in a form that no source can spell.
                _ => Spanned {
                    node: format!("({start})"),
                    span: self.token.span,
                },
            };
            // C23's underlying type is read over: the values say how wide an enumeration is.
            if tag == TypeTag::Enum && self.eat(":") {
                self.base(&mut Vec::new())?;
            }
            if self.is("{") {
                let body = self.deeper(|p| p.body(tag, attributes, types))?;
                types.push(CType {
                    tag,
                    name: name.clone(),
                    body,
                    span: self.span_from(start),
                });
            } else if name.node.starts_with('(') {
                return Err(self.unexpected("the name of a type or \"{\""));
            }
            (Some(tag), name.node)
        } else {
            (None, self.base_name()?)
        };
        let span = self.span_from(start);
        self.qualifiers(&mut Attributes::default())?;
        Ok(CTypeUse {
            tag,
            name,
            shape: Vec::new(),
            span,
        })
    }

    /// `unsigned long int`, `u64`.
    fn base_name(&mut self) -> Parsed<String> {
        let mut name = self.expect_name("the name of a type")?.node;
        while MANY.contains(&name.rsplit(' ').next().unwrap_or_default()) {
            match self.token.kind {
                TokenKind::Word(word) if MANY.contains(&word) && name.len() < 64 => {
                    self.take();
                    name = format!("{name} {word}");
                }
                TokenKind::Word(word) if QUALIFIERS.contains(&word) => {
                    self.take();
                }
                _ => break,
            }
        }
        Ok(name)
    }

    fn body(&mut self, tag: TypeTag, mut all: Attributes, types: &mut Vec<CType>) -> Parsed<CBody> {
        let pack = self.lexer.pack();
        self.take();
        if tag == TypeTag::Enum {
            let values = self.values()?;
            self.qualifiers(&mut all)?;
            return Ok(CBody::Values(values));
        }
        let mut members = Vec::new();
        loop {
            while self.eat(";") {}
            if self.eat("}") {
                break;
            }
            if self.is_end() {
                return Err(self.unexpected("a member or \"}\""));
            }
            let base = self.base(types)?;
            // An anonymous struct or union, whose members count as this one's (C11).
            if self.is(";") || self.is("}") {
                members.push(Declarator {
                    name: Spanned {
                        node: String::new(),
                        span: base.span,
                    },
                    ty: base,
                    bits: None,
                    packed: false,
                    align: None,
                });
                continue;
            }
            self.declarators(&base, &mut members)?;
            if !self.is(";") && !self.is("}") {
                return Err(self.unexpected("\";\""));
            }
        }
        self.qualifiers(&mut all)?;
        let Attributes { packed, align } = all;
        Ok(CBody::Members {
            members,
            packed: packed || pack == 1,
            pack,
            align,
        })
    }

    /// `A, B = 3 }`.
    fn values(&mut self) -> Parsed<Vec<(Spanned<String>, Option<Expr>)>> {
        let mut values = Vec::new();
        while !self.eat("}") {
            let name = self.expect_name("a name or \"}\"")?;
            let value = match self.eat("=") {
                true => Some(self.expression()?),
                false => None,
            };
            values.push((name, value));
            if !self.eat(",") && !self.is("}") {
                return Err(self.unexpected("\",\" or \"}\""));
            }
        }
        Ok(values)
    }

    /// `*a, b[4], c : 3`.
    fn declarators(&mut self, base: &CTypeUse, all: &mut Vec<Declarator>) -> Parsed<()> {
        loop {
            let (name, shape) = self.declarator()?;
            let bits = match self.eat(":") {
                true => Some(Box::new(self.expression()?)),
                false => None,
            };
            let mut attributes = Attributes::default();
            self.qualifiers(&mut attributes)?;
            let ty = CTypeUse {
                shape,
                ..base.clone()
            };
            all.push(Declarator {
                name,
                ty,
                bits,
                packed: attributes.packed,
                align: attributes.align,
            });
            if !self.eat(",") {
                return Ok(());
            }
        }
    }

    /// A name and what C writes around it, from the named type outwards.
    fn declarator(&mut self) -> Parsed<(Spanned<String>, Vec<CShape>)> {
        let mut shape = Vec::new();
        self.qualifiers(&mut Attributes::default())?;
        while self.eat("*") {
            shape.push(CShape::Pointer);
            self.qualifiers(&mut Attributes::default())?;
        }
        let (name, inner) = if self.eat("(") {
            let inner = self.deeper(Self::declarator)?;
            self.expect(")")?;
            inner
        // A bit field without a name, which only fills up a word.
        } else if self.is(":") {
            let span = Span {
                start: self.start(),
                end: self.start(),
            };
            let node = String::new();
            (Spanned { node, span }, Vec::new())
        } else {
            (self.expect_name("a name")?, Vec::new())
        };
        let mut behind = Vec::new();
        loop {
            if self.eat("[") {
                let count = match self.is("]") {
                    true => None,
                    false => Some(Box::new(self.expression()?)),
                };
                self.expect("]")?;
                behind.push(CShape::Array(count));
            } else if self.eat("(") {
                // Where members of a struct lie does not depend on parameters of functions.
                self.skip_past("(", ")");
                behind.push(CShape::Function);
            } else {
                break;
            }
        }
        // A suffix behind a name binds closer than a star before it; parentheses closer than both.
        shape.extend(behind.into_iter().rev());
        shape.extend(inner);
        if shape.len() > super::HEIGHT as usize {
            return Err(self.too_deep());
        }
        Ok((name, shape))
    }

    /// Goes past words that say nothing about a layout, and takes what attributes say about it.
    fn qualifiers(&mut self, all: &mut Attributes) -> Parsed<()> {
        loop {
            match self.token.kind {
                TokenKind::Word(word) if QUALIFIERS.contains(&word) => {
                    self.take();
                }
                TokenKind::Word("__packed") => {
                    self.take();
                    all.packed = true;
                }
                TokenKind::Word("__attribute__" | "__attribute") => {
                    self.take();
                    self.expect("(")?;
                    self.expect("(")?;
                    self.attributes(all)?;
                    self.expect(")")?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// `packed, aligned(8))`.
    fn attributes(&mut self, all: &mut Attributes) -> Parsed<()> {
        while !self.eat(")") {
            let name = self.expect_name("the name of an attribute")?.node;
            let arguments = self.eat("(");
            match name.as_str() {
                "packed" | "__packed__" => all.packed = true,
                "aligned" | "__aligned__" if arguments => {
                    all.align = Some(Box::new(self.expression()?));
                }
                _ => {}
            }
            if arguments {
                self.skip_past("(", ")");
            }
            if !self.eat(",") && !self.is(")") {
                return Err(self.unexpected("\",\" or \")\""));
            }
        }
        Ok(())
    }
}
