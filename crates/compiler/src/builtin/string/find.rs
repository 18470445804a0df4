//! Search for a constant string in another string.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::check::value::{constant, room};

/// Places in a string that the program goes over by itself: the verifier looks at each, and a helper goes over more.
const MAX_PLACES: u32 = 1024;

/// The place in the string, or -1.
pub(super) fn find(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Expr> {
    let args = usage.positional(checker, 2, 2)?;
    let [text, part] = args.as_slice() else {
        return Err(checker.error(usage.span, "two strings are wanted"));
    };
    let text = checker.string_argument(text)?;
    let part = checker.expression(part)?;
    let span_of_part = part.span;
    let needle = match part.kind {
        ExprKind::ConstantBytes(mut needle) => {
            let end = needle.iter().position(|byte| *byte == 0);
            needle.truncate(end.unwrap_or(needle.len()));
            needle
        }
        _ if part.ty.is_string() => return checker.find_unknown(text, part, usage.span),
        _ => return Err(checker.error(part.span, "a string is wanted here")),
    };
    if let ExprKind::ConstantBytes(known) = &text.kind {
        let place = match needle.is_empty() {
            true => Some(0),
            false => known.windows(needle.len()).position(|part| part == needle),
        };
        let place = place.map_or(-1, |place| place as i64);
        return Ok(constant(place as u64, Type::I64, usage.span));
    }
    let bytes = room(&text);
    if bytes > MAX_PLACES {
        let size = needle.len() as u32;
        let part = Expr::new(
            ExprKind::ConstantBytes(needle),
            Type::String { max: size },
            span_of_part,
        );
        return checker.find_unknown(text, part, usage.span);
    }
    let kind = ExprKind::StringFind {
        text: Box::new(text),
        needle,
        bytes,
        prefix: false,
    };
    Ok(Expr::new(kind, Type::I64, usage.span))
}
