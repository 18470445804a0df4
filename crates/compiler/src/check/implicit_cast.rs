//! Integers that a variable or a map holds as another type: what their own type has and that one lacks is lost.

use super::checker::Checker;
use super::tree::{Expr, Show, Type};
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
