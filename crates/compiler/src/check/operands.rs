//! Operands that an operator of scripts has no meaning for: strings beside `&&`, addresses that are multiplied.

use super::checker::{Checked, Checker};
use super::tree::{BinaryOp, Expr, Pointee, Pointer, Type};
use crate::lang::ast::{self, Span};
use crate::lang::diag::Diagnostic;

/// Message for an operator whose operands have types that it does not take together.
pub(super) fn no_operator(op: &str, left: &str, right: &str) -> String {
    format!("The {op} operator can not be used on expressions of types {left}, {right}")
}

impl Checker<'_> {
    /// A side of `&&` (`and`) or `||`: in scripts no string, which is neither true nor false.
    pub(super) fn truth(&mut self, side: &ast::Expr, and: bool) -> Checked<Expr> {
        if let ast::ExprKind::String(_) = side.kind
            && self.globals.infers_types
        {
            let message = format!("a string is no side of {}", if and { "&&" } else { "||" });
            let hint = "compare it: … == \"text\"";
            if let Ok(text) = self.operand(side) {
                self.refuse(&text);
            }
            return Err(self.report(Diagnostic::error(side.span, message).hint(hint)));
        }
        self.condition(side)
    }

    /// Warns of a comparison of pointers to two different types, which is mostly a mistake; `void *` may be compared with any, as in C.
    pub(super) fn warn_of_distinct_pointers(&mut self, left: &Expr, right: &Expr, span: Span) {
        let (Type::Pointer(a), Type::Pointer(b)) = (&left.ty, &right.ty) else {
            return;
        };
        let known = |pointer: &Pointer| pointer.to != Pointee::Unknown;
        let place = |pointer: &Pointer| (pointer.to, pointer.levels);
        if !self.globals.infers_types || !known(a) || !known(b) || place(a) == place(b) {
            return;
        }
        let (l, r) = (self.spelled_type(&left.ty).1, self.spelled_type(&right.ty).1);
        // The words that scripts' tests know.
        let message = format!("comparison of distinct pointer types: {l}, {r}");
        let hint = "cast one of them to the type of the other where this is meant";
        self.report(Diagnostic::warning(span, message).hint(hint));
    }

    /// Refuses arithmetic with addresses that has no meaning: `$pointer * 2`, `1 - $pointer`; of addresses as numbers it has one.
    pub(super) fn refuse_of_address(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Checked<()> {
        let is_address = |side: &Expr| {
            matches!(
                side.ty,
                Type::Pointer(Pointer { to, levels, .. }) if to != Pointee::Unknown || levels > 0
            )
        };
        let meant = match op {
            BinaryOp::Subtract => is_address(left) || !is_address(right),
            BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => {
                !is_address(left) && !is_address(right)
            }
            _ => true,
        };
        if meant || !self.globals.infers_types {
            return Ok(());
        }
        let (l, r) = (self.spelled_type(&left.ty).1, self.spelled_type(&right.ty).1);
        let message = no_operator(op.word(), &l, &r);
        let hint = "addresses are only added to and subtracted from; cast this one to a number: (uint64)…";
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }
}
