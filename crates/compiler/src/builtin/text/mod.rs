//! Built-ins that read texts.

pub(super) mod kstr;
pub(super) mod str;

use super::Use;
use crate::check::tree::Expr;
use crate::check::{Checked, Checker, STRING};
use kestrel_trace::layout::Space;

/// Most bytes of a text without its NUL.
const MOST: u32 = 1023;

/// `str(address)`, `str(address, bytes)`: of `space`, or of that which the address belongs to.
fn read(checker: &mut Checker<'_>, usage: &Use<'_>, space: Option<Space>) -> Checked<Expr> {
    let args = usage.positional(checker, 1, 2)?;
    let address = match args.first() {
        Some(address) => checker.expression(address),
        None => Err(checker.error(usage.span, "an address is missing")),
    };
    let max = match args.get(1) {
        Some(bytes) => checker.limit(bytes, MOST, "the length of a text")?,
        None => STRING,
    };
    checker.string(address?, max, space, usage.span)
}
