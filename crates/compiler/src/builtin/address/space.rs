//! Address spaces of pointers.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::phrase::Refused;
use crate::check::tree::{Expr, Pointer, Type};
use kestrel_trace::layout::Space;

/// An address as one of `space`.
pub(super) fn in_space(checker: &mut Checker<'_>, usage: &Use<'_>, space: Space) -> Checked<Expr> {
    let name = usage.name;
    address(checker, usage, space, |refused| {
        format!(
            "{name}() only supports integer or pointer arguments ({} provided)",
            refused.word
        )
    })
}

/// The same, with the caller's message in bpftrace's words for a value that is no address.
fn address(
    checker: &mut Checker<'_>,
    usage: &Use<'_>,
    space: Space,
    words: impl FnOnce(&Refused) -> String,
) -> Checked<Expr> {
    let args = usage.positional(checker, 1, 1)?;
    let value = match args.first() {
        Some(value) => checker.phrased(value.span, usage.span, |checker| checker.scalar(value), words)?,
        None => return Err(checker.error(usage.span, "an address is missing")),
    };
    let unknown = Pointer::untyped(space);
    let pointer = match value.ty {
        Type::Pointer(pointer) => Pointer {
            space,
            trusted: false,
            ..pointer
        },
        _ => unknown,
    };
    Ok(Expr {
        ty: Type::Pointer(pointer),
        span: usage.span,
        ..value
    })
}

/// An address whose symbol is shown.
pub(super) fn symbolic(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Expr> {
    let name = usage.name;
    let words = |_: &Refused| format!("{name}() expects an integer or pointer argument");
    let value = address(checker, usage, Space::Kernel, words)?;
    Ok(Expr {
        ty: Type::Pointer(Pointer {
            symbolic: true,
            ..Pointer::untyped(Space::Kernel)
        }),
        ..value
    })
}
