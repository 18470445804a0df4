//! `buf`.

use crate::builtin::row::{Builtin, Meaning, Use};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Expr, ExprKind, Pointer, Type};
use kestrel_trace::layout::Space;

/// Most bytes.
const MOST: u32 = 1023;
/// Most bytes where the length is not a constant and the third argument is left out.
const USUAL: u32 = 63;

pub(crate) static BUF: Builtin = Builtin {
    name: "buf",
    numbered: false,
    usage: "buf(address, bytes[, at most])",
    about: "in a record: memory at an address, NULs among its bytes",
    meaning: Meaning::Value(read),
};

fn read(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Expr> {
    let args = usage.positional(checker, 2, 3)?;
    let (Some(address), Some(bytes)) = (args.first(), args.get(1)) else {
        return Err(checker.error(usage.span, "an address and a number of bytes are missing"));
    };
    let value = checker.expression(address)?;
    let space = match value.ty {
        Type::Pointer(Pointer {
            space: Space::User, ..
        }) => Some(Space::User),
        Type::Pointer(_) | Type::Integer { size: 8, .. } => None,
        _ => return Err(checker.error(address.span, "an address is wanted here")),
    };
    let length = checker.scalar(bytes)?;
    let max = match (args.get(2), length.constant()) {
        (Some(most), _) => checker.limit(most, MOST, "the most bytes of memory")?,
        (None, Some(_)) => checker.limit(bytes, MOST, "a number of bytes of memory")?,
        (None, None) => USUAL,
    };
    let kind = ExprKind::ReadMemory {
        address: Box::new(value),
        space,
        max,
        length: Box::new(length),
    };
    Ok(Expr::new(kind, Type::Memory { max }, usage.span))
}
