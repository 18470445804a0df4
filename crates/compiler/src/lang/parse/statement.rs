//! Blocks and statements.

use super::{Lost, Parsed, Parser};
use crate::lang::ast::{BinaryOp, Block, Expr, ExprKind, ForRange, Statement, StatementKind};
use crate::lang::diag::Diagnostic;
use crate::lang::lexer::TokenKind;

/// `op=` signs; `None` is plain assignment.
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
        self.deeper(Self::block_inside)
    }

    fn block_inside(&mut self) -> Parsed<Block> {
        let opening = self.token.span;
        self.expect("{")?;
        let mut statements = Vec::new();
        loop {
            while self.eat(";") {}
            if self.eat("}") {
                break;
            }
            if self.is_end() {
                self.error(Diagnostic::error(opening, "this block is not closed by \"}\""));
                break;
            }
            match self.statement() {
                Ok(statement) => statements.push(statement),
                Err(Lost) => self.skip_statement(),
            }
        }
        Ok(Block {
            statements,
            span: self.span_from(opening.start),
        })
    }

    /// Goes on after the next semicolon, or at the brace that closes this block.
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

    fn statement(&mut self) -> Parsed<Statement> {
        let start = self.start();
        let kind = match self.token.kind {
            TokenKind::Word("if") => self.if_statement()?,
            TokenKind::Word("while") => {
                self.take();
                let condition = self.expression()?;
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
            TokenKind::Sign("{") => StatementKind::Block(self.block()?),
            _ => {
                let kind = self.simple_statement()?;
                let span = self.span_from(start);
                self.end_of_statement()?;
                return Ok(Statement { kind, span });
            }
        };
        Ok(Statement {
            kind,
            span: self.span_from(start),
        })
    }

    /// A semicolon, or the closing brace.
    fn end_of_statement(&mut self) -> Parsed<()> {
        if self.eat(";") || self.is("}") || self.is_end() {
            return Ok(());
        }
        Err(self.unexpected("an operator, \";\" or \"}\""))
    }

    /// Parses a statement that ends with a semicolon.
    fn simple_statement(&mut self) -> Parsed<StatementKind> {
        match self.token.kind {
            TokenKind::Word("let") => self.let_statement(),
            TokenKind::Word("return") => {
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

    fn expression_or_assignment(&mut self) -> Parsed<StatementKind> {
        let target = self.expression()?;
        let TokenKind::Sign(sign) = self.token.kind else {
            return Ok(StatementKind::Expr(target));
        };
        let Some((_, op)) = ASSIGNMENTS.iter().find(|(name, _)| *name == sign) else {
            return Ok(StatementKind::Expr(target));
        };
        if !is_place(&target) {
            return Err(self.error(
                Diagnostic::error(target.span, "this cannot be assigned to")
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

    fn variable_name(&mut self) -> Parsed<crate::lang::ast::Spanned<String>> {
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

    fn if_statement(&mut self) -> Parsed<StatementKind> {
        self.take();
        let condition = self.expression()?;
        let then = self.block()?;
        let otherwise = if self.eat_word("else") {
            Some(self.else_block()?)
        } else {
            None
        };
        Ok(StatementKind::If {
            condition,
            then,
            otherwise,
        })
    }

    /// A block, or another `if` as the only statement of one.
    fn else_block(&mut self) -> Parsed<Block> {
        if !self.is_word("if") {
            return self.block();
        }
        let start = self.start();
        let kind = self.deeper(Self::if_statement)?;
        let span = self.span_from(start);
        Ok(Block {
            statements: vec![Statement { kind, span }],
            span,
        })
    }

    fn for_statement(&mut self) -> Parsed<StatementKind> {
        self.take();
        let enclosed = self.eat("(");
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

/// Whether an expression can be assigned to.
fn is_place(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Variable(_) | ExprKind::Map { .. } => true,
        ExprKind::Member { base, .. } | ExprKind::Index { base, .. } => is_place(base),
        _ => false,
    }
}
