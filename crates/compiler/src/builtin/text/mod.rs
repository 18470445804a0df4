//! Built-ins that read texts.

pub(super) mod kstr;
pub(super) mod str;

use super::{Builtin, Use};
use crate::check::tree::{Expr, ExprKind};
use crate::check::{Checked, Checker, STRING};
use kestrel_trace::layout::Space;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[&str::STR, &kstr::KSTR];

/// Most bytes of a text without its NUL.
const MOST: u32 = 1023;

/// `str(address)`, `str(address, bytes)`: of `space`, or of that which the address belongs to. Of as many bytes as an expression says, none
/// behind them is looked at: what a system call is given has a length, and no NUL.
fn read(checker: &mut Checker<'_>, usage: &Use<'_>, space: Option<Space>) -> Checked<Expr> {
    let args = usage.positional(checker, 1, 2)?;
    let address = match args.first() {
        Some(address) => checker.expression(address),
        None => Err(checker.error(usage.span, "an address is missing")),
    };
    let Some(bytes) = args.get(1) else {
        return checker.string(address?, STRING, space, usage.span);
    };
    let length = checker.scalar(bytes)?;
    if length.constant().is_some() {
        let max = checker.limit(bytes, MOST, "the length of a text")?;
        return checker.string(address?, max, space, usage.span);
    }
    let text = checker.string(address?, STRING, space, usage.span)?;
    match text.kind {
        ExprKind::ReadString { .. } => Ok(text.cut_at(length)),
        _ => Err(checker.error(
            bytes.span,
            "the length of this text must be known before the program runs",
        )),
    }
}
