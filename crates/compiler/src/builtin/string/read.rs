//! A string that is read where an address points.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{BinaryOp, CompareOp, Expr, ExprKind, Show, Type};
use crate::check::value::{comparison, constant, operation, read_string, string_constant};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::Space;

/// Most bytes of a string without its NUL.
const MAX: u32 = 1023;

/// `str(address[, bytes])` in `space`, or in the address's own. With a length that is no constant at most so many bytes are read: arguments of
/// system calls have a length and no NUL.
pub(super) fn read(checker: &mut Checker<'_>, usage: &Use<'_>, space: Option<Space>) -> Checked<Expr> {
    let args = usage.positional(checker, 1, 2)?;
    let longest = checker.longest();
    let address = match args.first() {
        Some(address) => checker.expression(address),
        None => Err(checker.error(usage.span, "an address is missing")),
    };
    // A number that the text names is no address: it is spelled, as a parameter of the command line is.
    let address = match address {
        Ok(Expr {
            kind: ExprKind::Constant(value),
            ty: Type::Integer {
                show: Show::Natural, ..
            },
            span,
        }) if space.is_none() && checker.globals.infers_types => {
            Ok(string_constant(&value.to_string(), span))
        }
        address => address,
    };
    let Some(bytes) = args.get(1) else {
        return checker.string(address?, longest, space, usage.span);
    };
    let length = usage.only(
        checker,
        bytes,
        |checker| checker.integer(bytes),
        |refused| format!("int arguments ({} provided)", refused.word),
    )?;
    // The NUL counts; a text that the program names has none.
    let shortest = match &address {
        Ok(text) if matches!(text.kind, ExprKind::ConstantBytes(_)) => 0,
        _ => 1,
    };
    if let Some(known) = length.constant().map(u64::cast_signed)
        && checker.globals.infers_types
        && (known < 0 && length.ty.is_signed() || (0..=shortest).contains(&known))
    {
        if known < 0 {
            let message = format!("the length of a string cannot be negative ({known})");
            return Err(checker.error(bytes.span, message));
        }
        address?;
        return Ok(string_constant("", usage.span));
    }
    if let (Ok(text), Some(known)) = (&address, length.constant())
        && matches!(text.kind, ExprKind::ConstantBytes(_))
        && checker.globals.infers_types
    {
        let known = u32::try_from(known).unwrap_or(u32::MAX);
        return checker.string(address?, known.clamp(1, longest), space, usage.span);
    }
    if let Some(known) = length.constant()
        && known > longest.into()
        && checker.globals.infers_types
    {
        let message = format!("length param ({known}) is too long and will be shortened to {longest} bytes");
        let hint = format!("config = {{ max_strlen = {known} }}, or BPFTRACE_MAX_STRLEN={known}");
        checker.report(Diagnostic::warning(bytes.span, message).hint(hint));
    }
    if length.constant().is_some() {
        let max = match (checker.globals.infers_types, length.constant()) {
            (true, Some(known)) => known.saturating_sub(1).clamp(1, longest.into()) as u32,
            _ => checker.limit(bytes, MAX.max(longest), "the length of a string")?,
        };
        // A string of a map, or one that was put together, has its own length: it is cut in a copy.
        let text = match address? {
            text if text.ty.is_string()
                && matches!(text.kind, ExprKind::MapValue(_) | ExprKind::Sequence { .. }) =>
            {
                checker.in_memory(text)
            }
            other => other,
        };
        return checker.string(text, max, space, usage.span);
    }
    let length = match checker.globals.infers_types {
        true => without_nul(checker, length, bytes.span),
        false => length,
    };
    let text = checker.string(address?, longest, space, usage.span)?;
    match text.kind {
        ExprKind::ReadString { .. } => Ok(text.cut_at(length)),
        // One that the program has itself is put into its own memory and read there.
        _ if checker.globals.infers_types => {
            let text = match text.kind {
                ExprKind::ConstantBytes(_) => {
                    checker.with_room(text.clone(), text.ty.clone()).unwrap_or(text)
                }
                _ => checker.in_memory(text),
            };
            match text.kind {
                ExprKind::Bytes { address, offset, .. } => {
                    let offset = constant(i64::from(offset).cast_unsigned(), Type::I64, usage.span);
                    let address = operation(BinaryOp::Add, Type::U64, *address, offset, usage.span);
                    Ok(read_string(address, Some(Space::Kernel), longest, usage.span).cut_at(length))
                }
                _ => Err(checker.error(
                    bytes.span,
                    "the length of this string must be known before the program runs",
                )),
            }
        }
        _ => Err(checker.error(
            bytes.span,
            "the length of this string must be known before the program runs",
        )),
    }
}

/// The bytes of a string that a length has room for: the NUL counts, and a length of 0 has room for nothing.
fn without_nul(checker: &mut Checker<'_>, length: Expr, span: Span) -> Expr {
    let (keep, length) = checker.in_variable("length", length);
    let ty = length.ty.clone();
    let zero = constant(0, ty, span);
    let one = constant(1, Type::I64, span);
    let kind = ExprKind::Ternary {
        condition: Box::new(comparison(CompareOp::NotEqual, false, length.clone(), zero, span)),
        then: Some(Box::new(operation(
            BinaryOp::Subtract,
            Type::I64,
            length,
            one,
            span,
        ))),
        otherwise: Box::new(constant(0, Type::I64, span)),
    };
    checker.behind(vec![keep], Expr::new(kind, Type::I64, span), span)
}
