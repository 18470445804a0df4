//! Integers that are taken as another type, by a variable, a map or a division: what their own type has and that one lacks is lost.

use super::checker::Checker;
use super::tree::{BinaryOp, Expr, ExprKind, Show, Type};
use super::value::is_natural;
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;

impl Checker<'_> {
    /// Warns of a uint64 that is compared with a negative constant: as in bpftrace both are compared as int64. A signed value that is not constant is not
    /// warned of: nearly every script compares times with differences of times.
    pub(super) fn warn_of_word(&mut self, left: &Expr, right: &Expr) {
        let negative = |side: &Expr| {
            let known = side.constant().filter(|_| side.ty.is_signed());
            known.is_some_and(|value| value.cast_signed() < 0)
        };
        for (word, other) in [(left, right), (right, left)] {
            if word.ty == Type::U64 && negative(other) {
                self.warn_of_implicit_cast(word, &Type::I64);
            }
        }
    }

    /// Warns of an integer that is held as a type which lacks some of its values. Differences and quotients of other types are left alone: `nsecs - @start` is in every script.
    pub(super) fn warn_of_implicit_cast(&mut self, value: &Expr, held: &Type) {
        if !self.globals.infers_types || keeps_values(&value.ty, held) {
            return;
        }
        let (from, to) = (self.spelled_type(&value.ty).1, self.spelled_type(held).1);
        // The words that scripts' tests know.
        let message = format!("Expression of type: {from} being cast to type: {to}");
        let hint =
            format!("a number that does not fit becomes another one; where that is meant, write ({to})…");
        self.report(Diagnostic::warning(value.span, message).hint(hint));
    }

    /// Warns of a division of integers of which one may be negative: scripts divide words without a sign, so that the quotient is another than in C. As in
    /// bpftrace two of one type are not warned of, nor is a number of the text that fits the other; `(nsecs - @start) / 1000` is left alone, too.
    pub(super) fn warn_of_signed_division(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) {
        let signed = |side: &Expr| side.ty.is_signed() && !is_natural(side) && !is_time_between(side);
        let has_sign = signed(left) || signed(right);
        if !self.globals.infers_types || !has_sign || own_size(left) == own_size(right) {
            return;
        }
        // The words that scripts' tests know.
        let message = format!(
            "signed operands for '{}' can lead to undefined behavior (cast to unsigned to silence warning)",
            op.word()
        );
        let hint = "both sides are divided as uint64: a negative one is a large number";
        self.report(Diagnostic::warning(span, message).hint(hint));
    }
}

/// Whether it is a difference of two numbers without a sign.
fn is_time_between(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Binary {
            op: BinaryOp::Subtract,
            left,
            right,
            ..
        } => !left.ty.is_signed() && !right.ty.is_signed(),
        _ => false,
    }
}

/// Bytes of an integer with a sign: of a number of the text those that it needs. `None` for others.
fn own_size(value: &Expr) -> Option<u8> {
    match (value.constant().filter(|_| is_natural(value)), &value.ty) {
        (Some(known), _) => [1, 2, 4, 8]
            .into_iter()
            .find(|size| known >> (u32::from(*size) * 8 - 1) == 0),
        (
            None,
            Type::Integer {
                size, signed: true, ..
            },
        ) => Some(*size),
        _ => None,
    }
}

/// Whether the type that holds a value has all values of its own type. Literals that are not negative fit the type that was found for them.
fn keeps_values(own: &Type, held: &Type) -> bool {
    match (own, held) {
        (
            Type::Integer {
                size,
                signed,
                show: Show::Number(_),
            },
            Type::Integer {
                size: room,
                signed: with_sign,
                ..
            },
        ) => match (signed, with_sign) {
            (true, false) => false,
            (false, true) => size < room,
            _ => size <= room,
        },
        _ => true,
    }
}
