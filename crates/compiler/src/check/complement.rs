//! `~`: all bits turned round, at the width of the operand where the value is shown or kept, with its sign where it is calculated with.

use super::checker::{Checked, Checker};
use super::fold;
use super::tree::{Expr, ExprKind, Type, UnaryOp};
use super::value::{common, constant, is_literal, narrowed};
use crate::lang::ast::{self, Span};

/// `~value` in 64 bits, and the widths at which it is taken.
struct Complement {
    whole: Expr,
    /// The unsigned type to which it is cut where it is shown and kept, where that is not its own.
    shown: Option<Type>,
    /// Whether what calculates with it takes it whole: `~$x` of an `int8` 7 is shown as 248, and is -8 in `~$x == -8`, as in bpftrace.
    signed: bool,
}

impl Complement {
    fn shown(self) -> Expr {
        let span = self.whole.span;
        match self.shown {
            Some(ty) => narrowed(self.whole, ty, span),
            None => self.whole,
        }
    }

    fn calculated(self) -> Expr {
        if self.signed { self.whole } else { self.shown() }
    }
}

impl Checker<'_> {
    /// `~value` where it is shown or kept.
    pub(super) fn complement(&mut self, value: &ast::Expr, span: Span) -> Checked<Expr> {
        let complement = self.complement_of(value, span)?;
        let signed = complement.signed;
        Ok(self.as_word(complement.shown(), signed))
    }

    /// `~value`, of the type to whose width it is cut.
    pub(super) fn cut_complement(&mut self, value: &ast::Expr, span: Span) -> Checked<Expr> {
        Ok(self.complement_of(value, span)?.shown())
    }

    /// An expression that an operator, a cast or an aggregation calculates with.
    pub(crate) fn operand(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        match complemented(expr) {
            Some(value) => {
                let calculated = self.complement_of(value, expr.span)?.calculated();
                Ok(self.as_word(calculated, false))
            }
            None => self.expression(expr),
        }
    }

    fn complement_of(&mut self, value: &ast::Expr, span: Span) -> Checked<Complement> {
        if let Some(inner) = complemented(value) {
            let inner = self.complement_of(inner, value.span)?;
            let (shown, signed) = (inner.shown.clone(), inner.signed);
            return Ok(Complement {
                whole: turned(inner.calculated(), span),
                shown,
                signed,
            });
        }
        let stored = match self.stored_in(value) {
            Some(Type::Integer { size, signed, .. }) => Some((size, signed)),
            _ => None,
        };
        let value = self.cut_operand(value)?;
        let own = match &value.ty {
            Type::Integer { size, signed, .. } => Some((*size, *signed)),
            _ => None,
        };
        let known = value.constant().is_some();
        let (shown, signed) = match (own, stored) {
            (Some((_, true)), _) if self.globals.infers_types && known && is_literal(&value) => {
                (Some(Type::U64), false)
            }
            (Some((size @ (1 | 2 | 4), signed)), _) | (Some(_), Some((size @ (1 | 2 | 4), signed)))
                if self.globals.infers_types =>
            {
                (Some(Type::integer(size, false)), signed)
            }
            (Some((size @ (1 | 2 | 4), false)), _) if !known => (Some(Type::integer(size, false)), false),
            _ => (None, false),
        };
        Ok(Complement {
            whole: turned(value, span),
            shown,
            signed,
        })
    }
}

/// What stands behind `~`.
fn complemented(expr: &ast::Expr) -> Option<&ast::Expr> {
    match &expr.kind {
        ast::ExprKind::Unary {
            op: ast::UnaryOp::BitNot,
            value,
        } => Some(value),
        _ => None,
    }
}

fn turned(value: Expr, span: Span) -> Expr {
    let (op, ty) = (UnaryOp::BitNot, common(&value, &value));
    if let Some(known) = value.constant() {
        return constant(fold::unary(op, known), ty, span);
    }
    let value = Box::new(value);
    Expr::new(ExprKind::Unary { op, value }, ty, span)
}
