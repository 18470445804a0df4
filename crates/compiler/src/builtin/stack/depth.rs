//! A stack of so many frames.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Expr, ExprKind, Type};
use kestrel_trace::layout::Space;

/// The kernel's limit (`kernel.perf_event_max_stack`), and what is taken where nothing is said.
const DEPTH: u32 = 127;

/// `kstack`, `kstack(depth)`.
pub(super) fn stack(checker: &mut Checker<'_>, usage: &Use<'_>, space: Space) -> Checked<Expr> {
    let args = usage.positional(checker, 0, 1)?;
    let max = match args.first() {
        Some(depth) => checker.limit(depth, DEPTH, "the depth of a stack")?,
        None => DEPTH,
    };
    Ok(Expr::new(
        ExprKind::Stack { space, max },
        Type::Stack { space, max },
        usage.span,
    ))
}
