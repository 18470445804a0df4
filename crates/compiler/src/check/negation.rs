//! `-value`: at the width of a narrow unsigned operand, as in bpftrace, also where other such operators stand in between.

use super::checker::{Checked, Checker};
use super::fold;
use super::operator::literal_value;
use super::tree::{Expr, ExprKind, Type, UnaryOp};
use super::value::{common, constant, literal_type, narrowed};
use crate::lang::ast::{self, Span};
use crate::lang::diag::Diagnostic;

impl Checker<'_> {
    /// `-value`, of the type to whose width it is cut.
    pub(super) fn negated(&mut self, value: &ast::Expr, span: Span) -> Checked<Expr> {
        let is_written = matches!(value.kind, ast::ExprKind::Integer { .. });
        let value = self.cut_operand(value)?;
        let ty = common(&value, &value);
        let width = match (&value.ty, value.constant()) {
            (
                Type::Integer {
                    size, signed: false, ..
                },
                known,
            ) if *size < 8 && (known.is_none() || self.globals.infers_types) => {
                Some(Type::integer(*size, false))
            }
            _ => None,
        };
        if let Some(known) = literal_value(&value).filter(|_| width.is_none()) {
            match i64::try_from(-known) {
                Ok(negative) => {
                    let negative = negative.cast_unsigned();
                    return Ok(constant(negative, literal_type(negative, true), span));
                }
                Err(_) if is_written && self.globals.infers_types => {
                    let found = Diagnostic::error(span, "this is less than the smallest number of 64 bits")
                        .known_as(span, "negative value will underflow");
                    return Err(self.report(found.hint("that is -9223372036854775808")));
                }
                Err(_) => {}
            }
        }
        let op = UnaryOp::Negate;
        let made = match value.constant() {
            Some(known) => constant(fold::unary(op, known), ty, span),
            None => {
                let value = Box::new(value);
                Expr::new(ExprKind::Unary { op, value }, ty, span)
            }
        };
        Ok(match width {
            Some(width) => narrowed(made, width, span),
            None => made,
        })
    }

    /// What `-` and `~` in front of an operand are applied to: what such operators have made of it keeps their width.
    pub(super) fn cut_operand(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let ast::ExprKind::Unary { op, value: inner } = &value.kind else {
            return self.integer(value);
        };
        match op {
            ast::UnaryOp::Negate => self.negated(inner, value.span),
            ast::UnaryOp::BitNot => self.cut_complement(inner, value.span),
            _ => self.integer(value),
        }
    }

    /// A value that `-` or `~` has cut to a width, of the type that it has in scripts: a whole word's.
    pub(super) fn as_word(&self, cut: Expr, signed: bool) -> Expr {
        match cut.ty {
            Type::Integer {
                size: 1 | 2 | 4,
                signed: false,
                ..
            } if self.globals.infers_types => Expr {
                ty: Type::integer(8, signed),
                ..cut
            },
            _ => cut,
        }
    }
}
