//! Chains of operators, `a op b op c …`, checked in pieces.

use super::checker::{Checked, Checker};
use super::tree::{Expr, ExprKind, Statement, StatementKind};
use super::value::is_literal;
use crate::lang::ast::{self, Span};
use std::collections::HashMap;

impl Checker<'_> {
    /// `a op b op c …` with many operators: the result of a piece of them is kept in a variable, with which the next begins, so that no expression is deep.
    pub(super) fn chain(
        &mut self,
        first: &ast::Expr,
        rest: &[(ast::BinaryOp, ast::Expr)],
        span: Span,
    ) -> Checked<Expr> {
        if let Some(&(op @ (ast::BinaryOp::And | ast::BinaryOp::Or), _)) = rest.last() {
            // The part before the first of them is its left operand: `a == b || c == d || …`.
            let same = rest.iter().rev().take_while(|(other, _)| *other == op).count();
            let (before, same) = rest.split_at(rest.len() - same);
            if before.len() <= ast::CHAIN_LINKS {
                let first = ast::Expr::joined(first.clone(), before.iter().cloned(), span);
                return self.expression(&balanced(op, &first, same, span));
            }
        }
        /// A variable's name that no text can have.
        const PIECE: &str = "(piece)";
        let mut statements = Vec::new();
        let mut left = first.clone();
        let mut pieces = rest.chunks(ast::CHAIN_LINKS);
        let last = pieces.next_back().unwrap_or_default();
        self.scopes.push(HashMap::new());
        let value = pieces
            .try_for_each(|piece| {
                let whole = ast::Expr::joined(left.clone(), piece.iter().cloned(), span);
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
            .and_then(|()| self.expression(&ast::Expr::joined(left.clone(), last.iter().cloned(), span)));
        self.scopes.pop();
        let value = value?;
        if statements.is_empty() {
            return Ok(Expr { span, ..value });
        }
        let (ty, value) = (value.ty.clone(), Box::new(value));
        Ok(Expr::new(ExprKind::Sequence { statements, value }, ty, span))
    }
}

/// `a && b && …` or `a || b || …` as a tree of little depth: either operator has the same result in any order of pairs, its operands are evaluated from
/// left to right. Filters of recordings, which know no variables, have chains of these.
fn balanced(
    op: ast::BinaryOp,
    first: &ast::Expr,
    rest: &[(ast::BinaryOp, ast::Expr)],
    whole: Span,
) -> ast::Expr {
    let half = rest.len() / 2;
    let Some(((_, middle), behind)) = rest[half..].split_first() else {
        return first.clone();
    };
    let left = balanced(op, first, &rest[..half], whole);
    ast::Expr::joined(left, [(op, balanced(op, middle, behind, whole))], whole)
}
