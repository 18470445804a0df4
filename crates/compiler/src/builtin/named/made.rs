//! A value that is shown by a name, made of its parts.

use crate::check::tree::{Expr, ExprKind, Type};
use crate::lang::ast::Span;
use kestrel_trace::layout::Named;

/// The parts stand one behind the other, as the layout of the named value says.
pub(super) fn named(what: Named, parts: Vec<Expr>, span: Span) -> Expr {
    Expr::new(ExprKind::Tuple(parts), Type::Named(what), span)
}
