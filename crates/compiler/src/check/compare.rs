//! Comparison of strings.

use super::checker::{Checked, Checker};
use super::operands::no_operator;
use super::tree::{CompareOp, Expr, ExprKind, Show, Type};
use super::value::{constant, room, shortened};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;

/// Most bytes of two strings that are compared one by one up to their NUL.
const MAX: u32 = 128;

/// Least size of the string type of `c ? "a" : "b"`: handlers that share a map may have longer constants.
const MIN_TERNARY_STRING: u32 = 64;

impl Checker<'_> {
    /// `left < right` of strings that the program names; that of others is not known to the language.
    fn order_strings(&mut self, op: CompareOp, left: &Expr, right: &Expr, span: Span) -> Checked<Expr> {
        if let (ExprKind::ConstantBytes(left), ExprKind::ConstantBytes(right)) = (&left.kind, &right.kind) {
            let holds = match op {
                CompareOp::Less => left < right,
                CompareOp::LessEqual => left <= right,
                CompareOp::Greater => left > right,
                CompareOp::GreaterEqual => left >= right,
                CompareOp::Equal => left == right,
                CompareOp::NotEqual => left != right,
            };
            return Ok(constant(u64::from(holds), Type::Bool, span));
        }
        let message = no_operator(op.word(), &self.spelled_value(left), &self.spelled_value(right));
        let hint = "strings have no order: they are equal, or they are not; memcmp() compares the bytes of two values";
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// `left == right`, `left != right`.
    pub(super) fn compare_strings(
        &mut self,
        op: CompareOp,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Checked<Expr> {
        let negated = match op {
            CompareOp::Equal => false,
            CompareOp::NotEqual => true,
            _ => return self.order_strings(op, &left, &right, span),
        };
        let known = |e: &Expr| matches!(e.kind, ExprKind::ConstantBytes(_));
        let (left, right) = if known(&left) {
            (right, left)
        } else {
            (left, right)
        };
        let differ = constant(u64::from(negated), Type::Bool, span);
        let bytes = match (&left.kind, &right.kind) {
            (ExprKind::ConstantBytes(a), ExprKind::ConstantBytes(b)) => {
                return Ok(constant(u64::from((a == b) != negated), Type::Bool, span));
            }
            (_, ExprKind::ConstantBytes(text)) => {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                if length > capacity(&left) {
                    let message = format!(
                        "the other string has at most {} bytes: these are never equal",
                        capacity(&left)
                    );
                    self.report(Diagnostic::warning(right.span, message));
                    return Ok(differ);
                }
                // The zero byte is compared, too, so that a longer text with this beginning is not equal.
                (length + 1).min(room(&left))
            }
            _ => {
                let longest = room(&left).max(room(&right));
                if longest > MAX && self.globals.infers_types {
                    // Byte by byte this would be too many ways through the program.
                    return Ok(same_bytes(left, right, longest + 1, negated, span));
                }
                // Where the shorter one ends, the other must end, too.
                let shortest = room(&left).min(room(&right));
                (shortest + 1).min(longest).min(MAX)
            }
        };
        if bytes > MAX && !self.globals.infers_types {
            let message = format!("strings of more than {MAX} bytes cannot be compared");
            return Err(self.error(right.span, message));
        }
        let kind = ExprKind::StringEqual {
            left: Box::new(self.ended(left, bytes)),
            right: Box::new(self.ended(right, bytes)),
            bytes,
            negated,
        };
        Ok(Expr::new(kind, Type::Bool, span))
    }
}

impl Checker<'_> {
    /// A string of which `bytes` bytes are compared: one that has fewer is kept with zeros behind it, since other bytes lie behind it in memory.
    fn ended(&mut self, text: Expr, bytes: u32) -> Expr {
        let is_constant = matches!(text.kind, ExprKind::ConstantBytes(_));
        if is_constant || room(&text) >= bytes {
            return limited(text, bytes);
        }
        let kept = self.with_room(text.clone(), Type::CharArray { size: bytes });
        kept.unwrap_or_else(|| limited(text, bytes))
    }
}

/// Whether two values are the same in so many bytes as they are kept.
pub(super) fn same_bytes(left: Expr, right: Expr, bytes: u32, negated: bool, span: Span) -> Expr {
    let kind = ExprKind::BytesEqual {
        left: Box::new(left),
        right: Box::new(right),
        bytes,
        negated,
    };
    Expr::new(kind, Type::Bool, span)
}

/// Most bytes that a string can have.
fn capacity(text: &Expr) -> u32 {
    match text.kind {
        ExprKind::Comm => 15,
        _ => room(text),
    }
}

/// `c ? "a" : "b"` as a string: by itself it is a number whose values have names.
pub(super) fn ternary_as_string(side: Expr) -> Expr {
    let Type::Integer {
        show: Show::Names(names),
        ..
    } = &side.ty
    else {
        return side;
    };
    let text = |arm: &Expr| {
        let value = arm.constant()?.cast_signed();
        let (_, name) = names.iter().find(|(known, _)| *known == value)?;
        let ty = Type::CharArray {
            size: name.len() as u32,
        };
        Some(Box::new(Expr::new(
            ExprKind::ConstantBytes(name.clone().into_bytes()),
            ty,
            arm.span,
        )))
    };
    let ExprKind::Ternary {
        condition,
        then: Some(then),
        otherwise,
    } = &side.kind
    else {
        return side;
    };
    let (Some(yes), Some(no)) = (text(then), text(otherwise)) else {
        return side;
    };
    let longer = ternary_side_size(&yes).max(ternary_side_size(&no)).unwrap_or(0);
    // Both strings go through one stack slot, which is written in words of 8 bytes.
    let size = longer.next_multiple_of(8).max(MIN_TERNARY_STRING);
    let kind = ExprKind::Ternary {
        condition: condition.clone(),
        then: Some(yes),
        otherwise: no,
    };
    Expr::new(kind, Type::CharArray { size }, side.span)
}

/// Bytes that a string takes as one side of `?:`, a NUL among them; `None` of what is no text.
pub(super) fn ternary_side_size(side: &Expr) -> Option<u32> {
    match (&side.kind, &side.ty) {
        (ExprKind::ConstantBytes(text), ty) if ty.is_string() => Some(text.len() as u32 + 1),
        (_, Type::CharArray { size }) if *size > 0 => Some(*size),
        (_, Type::String { max }) => Some(max + 1),
        _ => None,
    }
}

/// A string of which only `bytes` bytes matter: strings are read no further, constants are padded.
fn limited(text: Expr, bytes: u32) -> Expr {
    if matches!(text.kind, ExprKind::ReadString { .. }) {
        return shortened(text, bytes);
    }
    let kind = match text.kind {
        ExprKind::ConstantBytes(mut constant) => {
            constant.resize(bytes as usize, 0);
            let kind = ExprKind::ConstantBytes(constant);
            return Expr::new(kind, Type::CharArray { size: bytes }, text.span);
        }
        kind => kind,
    };
    Expr { kind, ..text }
}
