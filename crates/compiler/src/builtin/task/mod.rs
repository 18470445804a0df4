//! Built-ins about the task that runs.

pub(super) mod cgroup;
pub(super) mod comm;
pub(super) mod curtask;
pub(super) mod gid;
pub(super) mod pid;
pub(super) mod tid;
pub(super) mod uid;

use super::{Builtin, Use};
use crate::check::tree::{BinaryOp, Expr, ExprKind, Intrinsic, Type};

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &pid::PID,
    &tid::TID,
    &uid::UID,
    &gid::GID,
    &comm::COMM,
    &curtask::CURTASK,
    &cgroup::CGROUP,
];

/// One 32-bit half of an intrinsic of two.
fn half(usage: &Use<'_>, which: Intrinsic, upper: bool) -> Expr {
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
