//! `pid` and `tid`, `uid` and `gid`: halves of the word that one BPF helper returns.

use crate::builtin::row::Use;
use crate::check::tree::{BinaryOp, Expr, ExprKind, Intrinsic, Type};

/// One 32-bit half of an intrinsic of two.
pub(super) fn half(usage: &Use<'_>, which: Intrinsic, upper: bool) -> Expr {
    let span = usage.span;
    let both = usage.intrinsic(which, Type::U64);
    let (op, operand) = if upper {
        (BinaryOp::ShiftRight, 32)
    } else {
        (BinaryOp::And, 0xffff_ffff)
    };
    let kind = ExprKind::Binary {
        op,
        signed: false,
        left: Box::new(both),
        right: Box::new(Expr::new(ExprKind::Constant(operand), Type::U64, span)),
    };
    Expr::new(kind, Type::integer(4, false), span)
}
