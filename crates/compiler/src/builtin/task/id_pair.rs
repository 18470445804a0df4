//! `pid` and `tid`, `uid` and `gid`: halves of the word that one BPF helper returns.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{BinaryOp, Expr, ExprKind, Intrinsic, Type};
use crate::lang::ast;
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper;

/// One 32-bit half of a 64-bit intrinsic.
pub(super) fn lower_or_upper(usage: &Use<'_>, which: Intrinsic, upper: bool) -> Expr {
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

/// The argument of `pid` and `tid`: `curr_ns`, numbers of the PID namespace that Kestrel runs in, or `init`, those of the initial one.
pub(super) fn id_namespace(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Intrinsic> {
    let args = usage.positional(checker, 0, 1)?;
    let Some(arg) = args.first() else {
        return Ok(Intrinsic::Identity);
    };
    match &arg.kind {
        ast::ExprKind::Identifier(word) if word == "curr_ns" => Ok(Intrinsic::Identity),
        ast::ExprKind::Identifier(word) if word == "init" => {
            Ok(Intrinsic::fixed(helper::GET_CURRENT_PID_TGID))
        }
        _ => {
            let message = format!("{}() only supports curr_ns and init as the argument", usage.name);
            let mut wrong = Diagnostic::error(usage.span, message);
            if let ast::ExprKind::Identifier(word) = &arg.kind {
                wrong = wrong.known_as(
                    arg.span,
                    format!("Invalid PID namespace mode: {word} (expects: curr_ns or init)"),
                );
            }
            Err(checker.report(wrong))
        }
    }
}
