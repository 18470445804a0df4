//! The built-in `strncmp`: compares the first bytes of two strings.

use super::memcmp::bytes_at;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Access, CompareOp, Expr, ExprKind, Type};
use crate::check::value::{comparison, constant, room};
use crate::lang::diag::Diagnostic;

pub(crate) static STRNCMP: Builtin = Builtin {
    name: "strncmp",
    numbered: false,
    usage: "strncmp(string, \"other\", bytes)",
    about: "0 where the first bytes of two strings are the same",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 3, 3)?;
        let [left, right, bytes] = args.as_slice() else {
            return Err(checker.error(usage.span, "two strings and a number are wanted"));
        };
        let range = match checker.expression(bytes)?.constant() {
            // bpftrace has other words for these.
            Some(known) if known.cast_signed() >= 0 => usage.span,
            _ => bytes.span,
        };
        let bytes = checker.phrased(
            range,
            usage.span,
            |checker| checker.whole(bytes, 1..=1024, "the number of bytes"),
            |_| "Builtin strncmp requires a non-negative literal".to_owned(),
        )? as usize;
        let (left, right) = (checker.expression(left)?, checker.expression(right)?);
        let longest = checker.longest();
        let mut strings = Vec::new();
        for text in [left, right] {
            let span = text.span;
            strings.push(match text.ty.is_string() {
                true => text,
                false if checker.globals.infers_types && is_number(&text) => {
                    let what = checker.describe(&text.ty);
                    let message = format!("strncmp() compares strings, and this is {what}");
                    let hint = "a string stands in quotes, or is read at an address by str()";
                    let known = "strncmp() only supports string arguments (int provided)";
                    let wrong = Diagnostic::error(span, message).hint(hint);
                    return Err(checker.report(wrong.known_as(usage.span, known)));
                }
                false => checker.string(text, longest, None, span)?,
            });
        }
        let known = strings
            .iter()
            .position(|text| matches!(text.kind, ExprKind::ConstantBytes(_)));
        let Some(known) = known else {
            // Behind a text's end are zeroes, so that the order of strings is that of their bytes.
            let size = u32::try_from(bytes).unwrap_or(u32::MAX);
            let mut statements = Vec::new();
            let mut sides = strings.into_iter().map(|text| {
                let span = text.span;
                let (address, _) = checker.string_in_memory(text, size, &mut statements);
                Box::new(bytes_at(address, size, Access::Kernel, span))
            });
            let (Some(left), Some(right)) = (sides.next(), sides.next()) else {
                return Err(checker.error(usage.span, "two strings are wanted"));
            };
            let kind = ExprKind::BytesOrder {
                left,
                right,
                bytes: size,
            };
            let order = Expr::new(kind, Type::I64, usage.span);
            return Ok(checker.behind(statements, order, usage.span));
        };
        let ExprKind::ConstantBytes(needle) = strings.remove(known).kind else {
            return Err(checker.error(usage.span, "a string is wanted"));
        };
        let other = strings.remove(0);
        let mut begin: Vec<u8> = needle.iter().copied().chain([0]).take(bytes).collect();
        if let ExprKind::ConstantBytes(known) = &other.kind {
            let mut known: Vec<u8> = known.iter().copied().chain([0]).take(bytes).collect();
            let common = known.len().max(begin.len());
            known.resize(common, 0);
            begin.resize(common, 0);
            return Ok(constant(u64::from(known != begin), Type::I64, usage.span));
        }
        let kind = ExprKind::StringFind {
            bytes: room(&other).max(begin.len() as u32),
            text: Box::new(other),
            needle: begin,
            prefix: true,
        };
        let place = Expr::new(kind, Type::I64, usage.span);
        let zero = constant(0, Type::I64, usage.span);
        let differs = comparison(CompareOp::NotEqual, true, place, zero, usage.span);
        Ok(Expr {
            ty: Type::I64,
            ..differs
        })
    }),
};

/// Whether it is a number of the text, at which no string lies.
fn is_number(value: &Expr) -> bool {
    matches!(value.ty, Type::Integer { .. }) && value.constant().is_some()
}
