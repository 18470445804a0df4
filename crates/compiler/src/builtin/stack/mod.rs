//! Built-ins that take stacks.

pub(super) mod kstack;
pub(super) mod ustack;

use super::{Builtin, Use};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::check::{Checked, Checker};
use kestrel_trace::layout::Space;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[&kstack::KSTACK, &ustack::USTACK];

/// The kernel's limit (`kernel.perf_event_max_stack`), and what is taken where nothing is said.
const DEPTH: u32 = 127;

/// `kstack`, `kstack(depth)`.
fn stack(checker: &mut Checker<'_>, usage: &Use<'_>, space: Space) -> Checked<Expr> {
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
