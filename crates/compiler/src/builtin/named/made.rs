//! A value that is shown by a name, made of its parts.

use crate::check::checker::{Checked, Checker};
use crate::check::number_name::name_of;
use crate::check::tree::{Expr, ExprKind, Type};
use crate::check::value::{narrowed, string_constant};
use crate::lang::ast::{self, Span};
use kestrel_trace::layout::Named;

/// The parts stand one behind the other, as the layout of the named value says.
pub(super) fn named(what: Named, parts: Vec<Expr>, span: Span) -> Expr {
    Expr::new(ExprKind::Tuple(parts), Type::Named(what), span)
}

/// A number that is shown by a name; in scripts that name, a string, where the number is known.
pub(super) fn named_number(
    checker: &mut Checker<'_>,
    what: Named,
    number: &ast::Expr,
    span: Span,
) -> Checked<Expr> {
    let number = checker.scalar(number)?;
    if checker.globals.infers_types
        && let Some(name) = number.constant().and_then(|known| name_of(&what, known as i32))
    {
        return Ok(string_constant(&name, span));
    }
    let place = number.span;
    let part = narrowed(number, Type::integer(4, what == Named::Error), place);
    Ok(named(what, vec![part], span))
}
