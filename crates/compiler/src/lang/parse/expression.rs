//! Expressions, by precedence climbing with C's precedences.

use super::{Parsed, Parser};
use crate::lang::ast::{
    Arg, BinaryOp, CHAIN_LINKS, Expr, ExprKind, PathStep, SizeofOperand, Span, Spanned, UnaryOp,
};
use crate::lang::diag::Diagnostic;
use crate::lang::lexer::{Token, TokenKind};

/// Operators between operands: sign, precedence (higher binds tighter; all group to the left), meaning.
const BINARY: &[(&str, u8, BinaryOp)] = &[
    ("||", 1, BinaryOp::Or),
    ("&&", 2, BinaryOp::And),
    ("|", 3, BinaryOp::BitOr),
    ("^", 4, BinaryOp::BitXor),
    ("&", 5, BinaryOp::BitAnd),
    ("==", 6, BinaryOp::Equal),
    ("!=", 6, BinaryOp::NotEqual),
    ("<", 7, BinaryOp::Less),
    ("<=", 7, BinaryOp::LessEqual),
    (">", 7, BinaryOp::Greater),
    (">=", 7, BinaryOp::GreaterEqual),
    ("<<", 8, BinaryOp::ShiftLeft),
    (">>", 8, BinaryOp::ShiftRight),
    ("+", 9, BinaryOp::Add),
    ("-", 9, BinaryOp::Subtract),
    ("*", 10, BinaryOp::Multiply),
    ("/", 10, BinaryOp::Divide),
    ("%", 10, BinaryOp::Modulo),
];

/// Operators before their operand.
const PREFIX: &[(&str, UnaryOp)] = &[
    ("!", UnaryOp::Not),
    ("-", UnaryOp::Negate),
    ("~", UnaryOp::BitNot),
    ("*", UnaryOp::Dereference),
    ("&", UnaryOp::AddressOf),
];

impl Parser<'_> {
    /// An expression: a ternary or something that binds tighter.
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.deeper(Self::ternary)
    }

    /// An expression inside brackets, where a slash is a division.
    pub(super) fn enclosed<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let outer = std::mem::replace(&mut self.in_predicate, false);
        let result = inner(self);
        self.in_predicate = outer;
        result
    }

    /// An expression that stands for one that could not be read.
    pub(super) fn broken(span: Span) -> Expr {
        Expr {
            kind: ExprKind::Error,
            span,
        }
    }

    /// An expression one level higher than the highest of its operands, unless that is too high.
    pub(super) fn build(&mut self, operands: u32, start: u32, kind: ExprKind) -> Parsed<Expr> {
        if operands >= super::HEIGHT {
            return Err(self.too_deep());
        }
        self.height = operands + 1;
        self.tallest = self.tallest.max(self.height);
        Ok(Expr {
            kind,
            span: self.span_from(start),
        })
    }

    /// A condition. `(x = 1)`, which makes a record elsewhere, is an error in it.
    pub(super) fn condition(&mut self) -> Parsed<Expr> {
        let condition = self.expression()?;
        if let ExprKind::Record(elements) = &condition.kind {
            let place = elements.first().map_or(condition.span, |(name, _)| name.span);
            let message = "this is a record and no condition";
            self.error(Diagnostic::error(place, message).hint("equality is \"==\""));
        }
        Ok(condition)
    }

    fn ternary(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let condition = Box::new(self.binary(0)?);
        let mut height = self.height;
        if !self.eat("?") {
            return Ok(*condition);
        }
        let then = if self.is(":") {
            None
        } else {
            let then = self.enclosed(Self::expression)?;
            height = height.max(self.height);
            Some(Box::new(then))
        };
        if !self.is(":") {
            let there = self.token.span;
            let message = "this choice has no \":\"";
            let hint = "it is written condition ? value : other value";
            let wrong = Diagnostic::error(there, message).known_as(there, "syntax: expected ':'");
            return Err(self.error(wrong.hint(hint)));
        }
        self.take();
        let otherwise = Box::new(self.expression()?);
        height = height.max(self.height);
        let kind = ExprKind::Ternary {
            condition,
            then,
            otherwise,
        };
        self.build(height, start, kind)
    }

    /// Operands joined by operators that bind tighter than `floor`.
    fn binary(&mut self, floor: u8) -> Parsed<Expr> {
        let start = self.start();
        let first = self.prefix()?;
        let (mut height, mut tree) = (self.height, self.height);
        let mut rest = Vec::new();
        while let TokenKind::Sign(sign) = self.token.kind {
            let Some((_, precedence, op)) = BINARY.iter().find(|row| row.0 == sign) else {
                break;
            };
            if *precedence <= floor || (sign == "/" && self.closes_predicate()) {
                break;
            }
            self.take();
            let right = self.binary(*precedence)?;
            height = height.max(self.height);
            tree = tree.max(self.height) + 1;
            rest.push((*op, right));
        }
        if rest.len() > CHAIN_LINKS {
            let first = Box::new(first);
            // The checker makes trees of its pieces.
            return self.build(
                height + CHAIN_LINKS as u32,
                start,
                ExprKind::Chain { first, rest },
            );
        }
        if tree > super::HEIGHT {
            return Err(self.too_deep());
        }
        self.height = tree;
        self.tallest = self.tallest.max(tree);
        let whole = self.span_from(start);
        Ok(Expr::joined(first, rest, whole))
    }

    /// Whether the slash that is next ends the predicate: a block, another event or the end of the text follows it.
    fn closes_predicate(&mut self) -> bool {
        self.in_predicate
            && match self.peek(0) {
                TokenKind::End | TokenKind::Sign("{" | "}" | ";" | "/") => true,
                TokenKind::Word("handler") => matches!(self.peek(1), TokenKind::String(_)),
                _ => false,
            }
    }

    fn prefix(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let TokenKind::Sign(sign) = self.token.kind else {
            return self.postfix();
        };
        if sign == "++" || sign == "--" {
            self.take();
            let target = Box::new(self.deeper(Self::prefix)?);
            let kind = ExprKind::Step {
                target,
                increment: sign == "++",
                prefix: true,
            };
            return self.build(self.height, start, kind);
        }
        if let Some((_, op)) = PREFIX.iter().find(|row| row.0 == sign) {
            self.take();
            let value = Box::new(self.deeper(Self::prefix)?);
            return self.build(self.height, start, ExprKind::Unary { op: *op, value });
        }
        if sign == "(" && self.at_cast() {
            self.take();
            let ty = self.enclosed(Self::type_name)?;
            let height = self.height;
            self.expect(")")?;
            let value = Box::new(self.deeper(Self::prefix)?);
            return self.build(height.max(self.height), start, ExprKind::Cast { ty, value });
        }
        self.postfix()
    }

    /// An operand and what follows it: members, indices, steps.
    fn postfix(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let mut base = self.operand()?;
        while let TokenKind::Sign(sign) = self.token.kind {
            let mut height = self.height;
            let kind = match sign {
                "." | "->" => {
                    self.take();
                    if is_entry(&base) && matches!(self.token.kind, TokenKind::Word(_)) {
                        let (call, reached) = self.entry_part(base, sign == "->")?;
                        base = self.build(reached, start, call)?;
                        continue;
                    }
                    ExprKind::Member {
                        base: Box::new(base),
                        name: self.member_name()?,
                        arrow: sign == "->",
                    }
                }
                "[" => {
                    self.take();
                    let index = self.enclosed(Self::expression)?;
                    // Indices nest without limit in the source; the tree's height bounds the recursion of all that walk it.
                    height = height.max(self.height);
                    self.expect("]")?;
                    ExprKind::Index {
                        base: Box::new(base),
                        index: Box::new(index),
                    }
                }
                "++" | "--" => {
                    self.take();
                    ExprKind::Step {
                        target: Box::new(base),
                        increment: sign == "++",
                        prefix: false,
                    }
                }
                _ => break,
            };
            base = self.build(height, start, kind)?;
        }
        Ok(base)
    }

    /// Parses what follows `entry.`: a word, or a call, whose name then begins with `entry.`.
    fn entry_part(&mut self, base: Expr, arrow: bool) -> Parsed<(ExprKind, u32)> {
        let height = self.height;
        let name = self.member_name()?;
        if !self.eat("(") {
            let base = Box::new(base);
            return Ok((ExprKind::Member { base, name, arrow }, height));
        }
        let args = self.enclosed(Self::arguments)?;
        let name = Spanned {
            node: format!("entry.{}", name.node),
            span: name.span,
        };
        Ok((ExprKind::Call { name, args }, height.max(self.height)))
    }

    /// The name of a member, or the number of a tuple's element.
    fn member_name(&mut self) -> Parsed<Spanned<String>> {
        let span = self.token.span;
        if let TokenKind::Integer { .. } = self.token.kind {
            self.take();
            let node = self.source(span).to_owned();
            return Ok(Spanned { node, span });
        }
        self.expect_name("the name of a member")
    }

    fn operand(&mut self) -> Parsed<Expr> {
        let start = self.start();
        self.height = 0;
        if self.is("(") {
            self.take();
            return self.enclosed(|p| p.parenthesised(start));
        }
        if let TokenKind::Word(word) = self.token.kind {
            return match word {
                "if" => self.deeper(Self::if_expression),
                "comptime" => {
                    self.take();
                    let value = Box::new(self.deeper(Self::prefix)?);
                    self.build(self.height, start, ExprKind::Comptime(value))
                }
                _ => self.word(word.to_owned()),
            };
        }
        // In a predicate the brace begins the block of the probe whose closing slash is missing.
        if self.is("{") && !self.in_predicate {
            let block = self.enclosed(Self::value_block)?;
            return self.build(self.height, start, ExprKind::Block(block));
        }
        if matches!(
            self.token.kind,
            TokenKind::Sign(_) | TokenKind::End | TokenKind::Bad
        ) {
            return Err(self.unexpected("an expression"));
        }
        let Token { kind, .. } = self.take();
        let kind = match kind {
            TokenKind::Integer { value, unsigned } => ExprKind::Integer { value, unsigned },
            TokenKind::String(text) => ExprKind::String(text),
            TokenKind::Variable(name) => ExprKind::Variable(name.to_owned()),
            TokenKind::Positional(index) => ExprKind::Positional { index, count: false },
            TokenKind::PositionalCount => ExprKind::Positional {
                index: 0,
                count: true,
            },
            TokenKind::Map(name) => {
                let keys = match self.eat("[") {
                    true if self.of_program && self.is("]") => {
                        let wrong = Diagnostic::error(self.token.span, "a key is missing here");
                        let wrong = wrong.known_as(self.token.span, "syntax: expected expression");
                        return Err(self.error(wrong.hint(format!("without keys it is written @{name}"))));
                    }
                    true => self.enclosed(|p| p.list("]"))?,
                    false => Vec::new(),
                };
                ExprKind::Map {
                    name: name.to_owned(),
                    keys,
                }
            }
            TokenKind::Word(_) | TokenKind::Sign(_) | TokenKind::Bad | TokenKind::End => ExprKind::Error,
        };
        self.build(self.height, start, kind)
    }

    /// Parses what follows an opening parenthesis: an expression, a tuple or a record.
    fn parenthesised(&mut self, start: u32) -> Parsed<Expr> {
        if self.eat(")") {
            return self.build(0, start, ExprKind::Tuple(Vec::new()));
        }
        if let Some(name) = self.argument_name() {
            return self.record(start, name);
        }
        let first = self.expression()?;
        let height = self.height;
        if self.eat(")") {
            // Keep the parentheses in the span: what is underlined should be balanced.
            return Ok(Expr {
                span: self.span_from(start),
                ..first
            });
        }
        if !self.is(",") {
            return Err(self.unexpected("an operator or \")\""));
        }
        self.take();
        let mut elements = vec![first];
        elements.extend(self.list(")")?);
        let height = height.max(self.height);
        self.build(height, start, ExprKind::Tuple(elements))
    }

    /// Parses what follows `(name =`.
    fn record(&mut self, start: u32, first: Spanned<String>) -> Parsed<Expr> {
        let (mut elements, mut name, mut height) = (Vec::new(), first, 0);
        loop {
            elements.push((name, self.expression()?));
            height = height.max(self.height);
            if !self.eat(",") && !self.is(")") {
                return Err(self.unexpected("an operator, \",\" or \")\""));
            }
            if self.eat(")") {
                return self.build(height, start, ExprKind::Record(elements));
            }
            name = match self.argument_name() {
                Some(name) => name,
                None => return Err(self.unexpected("the name of a record's next element (name = value)")),
            };
        }
    }

    /// Expressions separated by commas, up to the closing bracket, which is taken.
    pub(super) fn list(&mut self, closing: &'static str) -> Parsed<Vec<Expr>> {
        let mut all = Vec::new();
        let mut height = 0;
        while !self.eat(closing) {
            all.push(self.expression()?);
            height = height.max(self.height);
            if !self.eat(",") && !self.is(closing) {
                return Err(self.unexpected(&format!("an operator, \",\" or \"{closing}\"")));
            }
        }
        self.height = height;
        Ok(all)
    }

    /// A word and, for a call, its arguments.
    fn word(&mut self, word: String) -> Parsed<Expr> {
        let start = self.start();
        let span = self.token.span;
        self.take();
        let kind = match word.as_str() {
            "true" | "false" => ExprKind::Bool(word == "true"),
            "sizeof" if self.is("(") => ExprKind::Sizeof(Box::new(self.type_operand()?)),
            "typeof" if self.is("(") => ExprKind::Typeof(Box::new(self.type_operand()?)),
            "typeinfo" if self.is("(") => ExprKind::Typeinfo(Box::new(self.type_operand()?)),
            "offsetof" => self.enclosed(Self::offsetof)?,
            _ if self.is("(") || self.has_bang() => {
                self.eat("!");
                self.take();
                let args = self.enclosed(Self::arguments)?;
                let name = Spanned { node: word, span };
                ExprKind::Call { name, args }
            }
            _ => ExprKind::Identifier(word),
        };
        self.build(self.height, start, kind)
    }

    fn arguments(&mut self) -> Parsed<Vec<Arg>> {
        let mut args = Vec::new();
        let mut height = 0;
        while !self.eat(")") {
            let name = self.argument_name();
            let value = self.expression()?;
            height = height.max(self.height);
            args.push(Arg { name, value });
            if !self.eat(",") && !self.is(")") {
                return Err(self.unexpected("an operator, \",\" or \")\""));
            }
        }
        self.height = height;
        Ok(args)
    }

    /// `name =`, if that is next.
    pub(super) fn argument_name(&mut self) -> Option<Spanned<String>> {
        let TokenKind::Word(word) = self.token.kind else {
            return None;
        };
        if *self.peek(0) != TokenKind::Sign("=") {
            return None;
        }
        let span = self.token.span;
        self.take();
        self.take();
        Some(Spanned {
            node: word.to_owned(),
            span,
        })
    }

    /// Whether `!(` follows a word without blanks: an older spelling of a macro's call.
    fn has_bang(&self) -> bool {
        self.is("!") && self.start() == self.last_end && self.lexer.rest().starts_with('(')
    }

    fn offsetof(&mut self) -> Parsed<ExprKind> {
        self.expect("(")?;
        let named = matches!(self.token.kind, TokenKind::Word(_)) && *self.peek(0) == TokenKind::Sign(",");
        let of = Box::new(if named {
            SizeofOperand::Type(self.type_name()?)
        } else {
            self.type_or_expression()?
        });
        let mut height = self.height;
        if !self.is(",") {
            self.error(
                Diagnostic::error(self.token.span, "offsetof wants a type and a member")
                    .known_as(self.token.span, "syntax: expected ','")
                    .hint("offsetof(struct task_struct, pid)"),
            );
        }
        self.expect(",")?;
        let mut path = vec![PathStep::Member(self.expect_name("the name of a member")?)];
        loop {
            if self.eat(".") || self.eat("->") {
                path.push(PathStep::Member(self.expect_name("the name of a member")?));
            } else if self.eat("[") {
                path.push(PathStep::Index(self.expression()?));
                height = height.max(self.height);
                self.expect("]")?;
            } else {
                break;
            }
        }
        self.expect(")")?;
        self.height = height;
        Ok(ExprKind::Offsetof { of, path })
    }
}

/// Whether an expression is the word `entry`, whose members are values as they were at a function's entry.
fn is_entry(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Identifier(word) if word == crate::builtin::ENTRY.name)
}
