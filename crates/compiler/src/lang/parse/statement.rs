//! Parser of blocks and statements.

use super::habit::LOOP;
use super::phrase::syntax;
use super::{Lost, Parsed, Parser};
use crate::lang::ast::{
    BinaryOp, Block, Expr, ExprKind, ForRange, Span, Statement, StatementKind, ValueBlock,
};
use crate::lang::diag::Diagnostic;
use crate::lang::lexer::TokenKind;

/// Signs of assignments, each with the operation of `a op= b`; `None` for plain assignment.
const ASSIGNMENTS: &[(&str, Option<BinaryOp>)] = &[
    ("=", None),
    ("+=", Some(BinaryOp::Add)),
    ("-=", Some(BinaryOp::Subtract)),
    ("*=", Some(BinaryOp::Multiply)),
    ("/=", Some(BinaryOp::Divide)),
    ("%=", Some(BinaryOp::Modulo)),
    ("<<=", Some(BinaryOp::ShiftLeft)),
    (">>=", Some(BinaryOp::ShiftRight)),
    ("&=", Some(BinaryOp::BitAnd)),
    ("|=", Some(BinaryOp::BitOr)),
    ("^=", Some(BinaryOp::BitXor)),
];

impl Parser<'_> {
    /// `{ statement… }`.
    pub(super) fn block(&mut self) -> Parsed<Block> {
        self.value_block().map(into_block)
    }

    /// `{ statement…; value }`.
    pub(super) fn value_block(&mut self) -> Parsed<ValueBlock> {
        let outside = std::mem::take(&mut self.tallest);
        let block = self.deeper(Self::block_inside);
        self.height = self.tallest;
        self.tallest = self.tallest.max(outside);
        block
    }

    fn block_inside(&mut self) -> Parsed<ValueBlock> {
        let opening = self.token.span;
        self.expect("{")?;
        let mut statements = Vec::new();
        let mut value = None;
        loop {
            while self.eat(";") {}
            if self.eat("}") {
                break;
            }
            if self.is_end() {
                self.unclosed(opening);
                break;
            }
            match self.statement() {
                Ok(Statement {
                    kind: StatementKind::Expr(expr),
                    ..
                }) if self.is("}") && !self.ended && has_value(&expr) => value = Some(Box::new(expr)),
                Ok(statement) => statements.push(settled(statement)),
                Err(Lost) => self.skip_statement(),
            }
        }
        Ok(ValueBlock {
            statements,
            value,
            span: self.span_from(opening.start),
        })
    }

    /// Reports a block without its closing brace, unless something inside it was reported as not closed: an open text swallows the brace, too.
    fn unclosed(&mut self, opening: Span) {
        let inside = |d: &Diagnostic| d.span.start > opening.start && d.unclosed;
        if !self.found.iter().any(inside) {
            let message = "this block is not closed by \"}\"";
            let mut wrong =
                Diagnostic::unclosed(opening, message).hint("write \"}\" behind its last statement");
            wrong.phrase = Some(self.left_open());
            self.error(wrong);
        }
    }

    /// Recovers from an error: skips to behind the next semicolon or inner block, or to the brace that closes this block.
    fn skip_statement(&mut self) {
        while !self.is_end() && !self.is("}") {
            if self.eat(";") {
                return;
            }
            if self.eat("{") {
                self.skip_past("{", "}");
                return;
            }
            self.take();
        }
    }

    /// Parses one statement and its semicolon. `if` and blocks come as expressions, because the last one may be the value of the block around it; the caller turns
    /// the others into statements ([`settled`]).
    fn statement(&mut self) -> Parsed<Statement> {
        let start = self.start();
        self.ended = false;
        let kind = match self.token.kind {
            TokenKind::Word("if") => StatementKind::Expr(self.if_expression()?),
            TokenKind::Word("while") => {
                self.take();
                let condition = self.condition()?;
                let body = self.block()?;
                StatementKind::While { condition, body }
            }
            TokenKind::Word("for") => self.for_statement()?,
            TokenKind::Word("unroll") => {
                self.take();
                let count = self.expression()?;
                let body = self.block()?;
                StatementKind::Unroll { count, body }
            }
            TokenKind::Sign("{") => {
                let block = self.value_block()?;
                StatementKind::Expr(self.build(self.height, start, ExprKind::Block(block))?)
            }
            _ => {
                let kind = self.simple_statement()?;
                let span = self.span_from(start);
                self.end_of_statement()?;
                return Ok(Statement { kind, span });
            }
        };
        let span = self.span_from(start);
        self.ended = self.is(";");
        Ok(Statement { kind, span })
    }

    /// Expects a semicolon, or the closing brace of the block.
    fn end_of_statement(&mut self) -> Parsed<()> {
        self.ended = self.eat(";");
        if self.ended || self.is("}") || self.is_end() {
            return Ok(());
        }
        Err(self.unexpected("an operator, \";\" or \"}\""))
    }

    /// Parses a statement that ends with a semicolon.
    fn simple_statement(&mut self) -> Parsed<StatementKind> {
        if self.is_word("_") && *self.peek(0) == TokenKind::Sign("=") {
            self.take();
            self.take();
            return self.expression().map(StatementKind::Discard);
        }
        match self.token.kind {
            TokenKind::Word("let") => self.let_statement(),
            TokenKind::Word("return") => {
                if self.in_macro {
                    let message = "'return' statement is not allowed in a macro";
                    let hint = "a macro is put where it is called, and its value is the last expression: macro one_more($x) { $x + 1 }";
                    self.error(Diagnostic::error(self.token.span, message).hint(hint));
                }
                self.take();
                let bare = self.is(";") || self.is("}") || self.is_end();
                let value = if bare { None } else { Some(self.expression()?) };
                Ok(StatementKind::Return(value))
            }
            TokenKind::Word("break") => {
                self.take();
                Ok(StatementKind::Break)
            }
            TokenKind::Word("continue") => {
                self.take();
                Ok(StatementKind::Continue)
            }
            _ => self.expression_or_assignment(),
        }
    }

    /// An expression by itself, or the target of an assignment (`$x += 1`).
    fn expression_or_assignment(&mut self) -> Parsed<StatementKind> {
        let target = self.expression()?;
        let TokenKind::Sign(sign) = self.token.kind else {
            return Ok(StatementKind::Expr(target));
        };
        let Some((_, op)) = ASSIGNMENTS.iter().find(|(name, _)| *name == sign) else {
            return Ok(StatementKind::Expr(target));
        };
        if !is_place(&target) {
            let sign = self.token.span;
            return Err(self.error(
                Diagnostic::error(target.span, "this cannot be assigned to")
                    .known_as(sign, "syntax: expected ';'")
                    .hint("assign to a variable ($x) or a map (@x); equality is \"==\""),
            ));
        }
        self.take();
        let value = self.expression()?;
        Ok(StatementKind::Assign {
            target,
            op: *op,
            value,
        })
    }

    fn let_statement(&mut self) -> Parsed<StatementKind> {
        self.take();
        let name = self.variable_name()?;
        let ty = match self.eat(":") {
            true => Some(self.type_name()?),
            false => None,
        };
        let value = match self.eat("=") {
            true => Some(self.expression()?),
            false => None,
        };
        Ok(StatementKind::Let { name, ty, value })
    }

    pub(super) fn variable_name(&mut self) -> Parsed<crate::lang::ast::Spanned<String>> {
        let span = self.token.span;
        let TokenKind::Variable(name) = self.token.kind else {
            return Err(self.unexpected("a variable ($name)"));
        };
        self.take();
        Ok(crate::lang::ast::Spanned {
            node: name.to_owned(),
            span,
        })
    }

    /// `if (c) { a } else { b }`.
    pub(super) fn if_expression(&mut self) -> Parsed<Expr> {
        let start = self.start();
        self.take();
        let condition = Box::new(self.enclosed(Self::condition)?);
        let mut height = self.height;
        let then = self.enclosed(Self::value_block)?;
        height = height.max(self.height);
        let otherwise = if self.eat_word("else") {
            Some(self.enclosed(Self::else_block)?)
        } else {
            None
        };
        height = height.max(self.height);
        let kind = ExprKind::If {
            condition,
            then,
            otherwise,
        };
        self.build(height, start, kind)
    }

    /// The part behind `else`: a block, or another `if`, which becomes the value of a block without statements.
    fn else_block(&mut self) -> Parsed<ValueBlock> {
        if !self.is_word("if") {
            return self.value_block();
        }
        let start = self.start();
        let value = self.deeper(Self::if_expression)?;
        Ok(ValueBlock {
            statements: Vec::new(),
            value: Some(Box::new(value)),
            span: self.span_from(start),
        })
    }

    /// Skips the head of a loop in the style of C (`for (i = 0; …)`), so that recovery finds the loop's body and skips it as one block.
    fn past_loop(&mut self) -> Lost {
        let mut depth = 1;
        while !self.is_end() && !self.is("{") && !self.is("}") && depth > 0 {
            depth += i32::from(self.is("(")) - i32::from(self.is(")"));
            self.take();
        }
        Lost
    }

    fn for_statement(&mut self) -> Parsed<StatementKind> {
        self.take();
        let enclosed = self.eat("(");
        if !matches!(self.token.kind, TokenKind::Variable(_)) || *self.peek(0) != TokenKind::Sign(":") {
            let message = "this is not how a loop begins";
            let known = match self.token.kind {
                TokenKind::Variable(_) => {
                    self.peek(0);
                    let next = self.ahead.front().map_or(self.token.span, |next| next.token.span);
                    syntax(next, "expected ':'")
                }
                _ => syntax(self.token.span, "expected variable in for loop"),
            };
            let mut wrong = Diagnostic::error(self.token.span, message).hint(LOOP);
            wrong.phrase = Some(known);
            self.error(wrong);
            return Err(self.past_loop());
        }
        let name = self.variable_name()?;
        self.expect(":")?;
        let first = self.expression()?;
        let over = if self.eat("..") {
            ForRange::Range(first, self.expression()?)
        } else {
            ForRange::Map(first)
        };
        if enclosed {
            self.expect(")")?;
        }
        let body = self.block()?;
        Ok(StatementKind::For { name, over, body })
    }
}

/// Whether an expression can be the value of a block: any can but an `if` without `else`.
fn has_value(expr: &Expr) -> bool {
    !matches!(expr.kind, ExprKind::If { otherwise: None, .. })
}

/// Turns an `if` or a block that was parsed as an expression into a statement, as it is not the value of the block around it.
fn settled(statement: Statement) -> Statement {
    let Statement { kind, span } = statement;
    let kind = settled_kind(kind);
    Statement { kind, span }
}

/// The same of a statement's kind.
pub(crate) fn settled_kind(kind: StatementKind) -> StatementKind {
    match kind {
        StatementKind::Expr(Expr {
            kind:
                ExprKind::If {
                    condition,
                    then,
                    otherwise,
                },
            ..
        }) => StatementKind::If {
            condition: *condition,
            then: into_block(then),
            otherwise: otherwise.map(into_block),
        },
        StatementKind::Expr(Expr {
            kind: ExprKind::Block(block),
            ..
        }) => StatementKind::Block(into_block(block)),
        kind => kind,
    }
}

/// Makes a plain block of a block with a value: the value becomes its last statement.
fn into_block(block: ValueBlock) -> Block {
    let ValueBlock {
        mut statements,
        value,
        span,
    } = block;
    statements.extend(value.map(|value| {
        let span = value.span;
        settled(Statement {
            kind: StatementKind::Expr(*value),
            span,
        })
    }));
    Block { statements, span }
}

/// Whether an expression can be assigned to: a variable, a map's entry, or a part of one.
fn is_place(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Variable(_) | ExprKind::Map { .. } => true,
        ExprKind::Member { base, .. } | ExprKind::Index { base, .. } => is_place(base),
        _ => false,
    }
}
