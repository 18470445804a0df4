//! Chains of operators, `a op b op c …`, checked in pieces.

use super::checker::{Checked, Checker};
use super::tree::{Expr, ExprKind, Statement, StatementKind};
use super::value::is_literal;
use crate::lang::ast::{self, Span};
use std::collections::HashMap;

impl Checker<'_> {
    /// `a op b op c …` with many operators: what a piece of them comes to is kept in a variable, with which the next begins, so that no expression is deep.
    pub(super) fn chain(
        &mut self,
        first: &ast::Expr,
        rest: &[(ast::BinaryOp, ast::Expr)],
        span: Span,
    ) -> Checked<Expr> {
        /// What no text can name a variable.
        const PIECE: &str = "(piece)";
        let mut statements = Vec::new();
        let mut left = first.clone();
        let mut pieces = rest.chunks(ast::CHAIN_LINKS);
        let last = pieces.next_back().unwrap_or_default();
        self.scopes.push(HashMap::new());
        let value = pieces
            .try_for_each(|piece| {
                let whole = ast::Expr::joined(left.clone(), piece.iter().cloned());
                let value = self.scalar(&whole)?;
                left.span = whole.span;
                left.kind = match value.constant() {
                    Some(number) if is_literal(&value) && number.cast_signed() >= 0 => {
                        ast::ExprKind::Integer {
                            value: number,
                            unsigned: !value.ty.is_signed(),
                        }
                    }
                    _ => {
                        let variable = self.hidden_variable("piece", value.ty.clone());
                        if let Some(scope) = self.scopes.last_mut() {
                            scope.insert(PIECE.to_owned(), variable);
                        }
                        let kind = StatementKind::Set { variable, value };
                        statements.push(Statement {
                            kind,
                            span: whole.span,
                        });
                        ast::ExprKind::Variable(PIECE.to_owned())
                    }
                };
                Ok(())
            })
            .and_then(|()| self.expression(&ast::Expr::joined(left.clone(), last.iter().cloned())));
        self.scopes.pop();
        let value = value?;
        if statements.is_empty() {
            return Ok(Expr { span, ..value });
        }
        let (ty, value) = (value.ty.clone(), Box::new(value));
        Ok(Expr::new(ExprKind::Sequence { statements, value }, ty, span))
    }
}
