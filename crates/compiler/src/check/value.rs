//! Pieces of the checked tree that every room of the check makes: constants, comparisons, arithmetic, sizes and strings; nothing is looked up here.

use super::fold;
use super::tree::{BinaryOp, CompareOp, Expr, ExprKind, Show, Type};
use crate::lang::ast::Span;
use crate::lang::diag::nearest;
use kestrel_trace::layout::{Base, Space};
use kestrel_trace::print::raw;

/// Most bytes of a string by default, without its NUL.
pub(crate) const STRING: u32 = 255;

/// A scalar known now.
pub(crate) fn constant(value: u64, ty: Type, span: Span) -> Expr {
    Expr::new(ExprKind::Constant(value), ty, span)
}

/// A number as it is written: of the fewest bytes that hold it; suffixes (`5u`) change nothing, as in bpftrace.
pub(crate) fn literal(value: u64, span: Span) -> Expr {
    let signed = i64::try_from(value).is_ok();
    constant(value, literal_type(value, signed), span)
}

/// The smallest type that holds a number.
pub(crate) fn literal_type(value: u64, signed: bool) -> Type {
    let fits = |size: &u8| fold::convert(value, *size, signed) == value;
    let size = [1, 2, 4].into_iter().find(fits).unwrap_or(8);
    let show = match signed && value.cast_signed() >= 0 {
        true => Show::Natural,
        false => Show::Number(Base::Decimal),
    };
    Type::Integer { size, signed, show }
}

/// Whether it is a number as written, or calculated of such ones. `(uint8)7` is none: what is written has no sign only where no signed type holds it.
pub(crate) fn is_literal(expr: &Expr) -> bool {
    let signed = expr.ty.is_signed();
    expr.constant().is_some_and(|value| {
        literal_type(value, signed) == expr.ty && (signed || i64::try_from(value).is_err())
    })
}

/// Whether it is a number known now that is not negative and whose type says nothing of a sign: a cast, `(int8)7`, does.
pub(super) fn is_natural(expr: &Expr) -> bool {
    let signed = matches!(
        expr.ty,
        Type::Integer {
            signed: true,
            show: Show::Number(_),
            ..
        }
    );
    !signed && expr.constant().is_some_and(|value| i64::try_from(value).is_ok())
}

/// A text known now.
pub(crate) fn string_constant(text: &str, span: Span) -> Expr {
    bytes_constant(raw::to_bytes(text).into_owned(), span)
}

/// A text known now, by its bytes.
pub(crate) fn bytes_constant(bytes: Vec<u8>, span: Span) -> Expr {
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX).max(1);
    Expr::new(ExprKind::ConstantBytes(bytes), Type::CharArray { size }, span)
}

/// A comparison of scalars, folded where both are known.
pub(crate) fn comparison(op: CompareOp, signed: bool, left: Expr, right: Expr, span: Span) -> Expr {
    if let (Some(l), Some(r)) = (left.constant(), right.constant()) {
        return constant(u64::from(fold::compare(op, signed, l, r)), Type::Bool, span);
    }
    let kind = ExprKind::Compare {
        op,
        signed,
        left: Box::new(left),
        right: Box::new(right),
    };
    Expr::new(kind, Type::Bool, span)
}

/// A scalar cut to the size of `ty`, or only renamed where it fits as it is.
pub(crate) fn narrowed(value: Expr, ty: Type, span: Span) -> Expr {
    let shape = |ty: &Type| match ty {
        Type::Integer { size, signed, .. } => (*size, *signed),
        Type::Bool => (1, false),
        _ => (8, false),
    };
    let ((from, from_signed), (size, signed)) = (shape(&value.ty), shape(&ty));
    let fits = size == 8 || (from == size && from_signed == signed) || (from < size && !from_signed);
    if let Some(known) = value.constant() {
        return constant(fold::convert(known, size, signed), ty, span);
    }
    if fits {
        return Expr { ty, span, ..value };
    }
    let kind = ExprKind::Convert {
        value: Box::new(value),
        size,
        signed,
    };
    Expr::new(kind, ty, span)
}

/// An operation on two scalars, folded where both are known.
pub(crate) fn operation(op: BinaryOp, ty: Type, left: Expr, right: Expr, span: Span) -> Expr {
    let signed = ty.is_signed();
    if let (Some(l), Some(r)) = (left.constant(), right.constant()) {
        return constant(fold::binary(op, signed, l, r), ty, span);
    }
    let kind = ExprKind::Binary {
        op,
        signed,
        left: Box::new(left),
        right: Box::new(right),
    };
    Expr::new(kind, ty, span)
}

/// `count × size` bytes.
pub(crate) fn scaled(count: Expr, size: u32) -> Expr {
    let span = count.span;
    if size == 1 {
        return count;
    }
    let size = constant(u64::from(size), Type::I64, span);
    operation(BinaryOp::Multiply, Type::I64, count, size, span)
}

/// A scalar of any type as a plain 64-bit integer.
pub(crate) fn widened(value: Expr) -> Expr {
    let span = value.span;
    let ty = match &value.ty {
        Type::Integer {
            show: show @ (Show::Names(_) | Show::Flags(_)),
            signed,
            ..
        } => Type::Integer {
            size: 8,
            signed: *signed,
            show: show.clone(),
        },
        Type::Integer {
            show: Show::Natural, ..
        } => Type::Integer {
            size: 8,
            signed: true,
            show: Show::Natural,
        },
        Type::Bool => return value,
        _ => common(&value, &value),
    };
    narrowed(value, ty, span)
}

/// The string at an address.
pub(crate) fn read_string(address: Expr, space: Option<Space>, max: u32, span: Span) -> Expr {
    let kind = ExprKind::ReadString {
        address: Box::new(address),
        space,
        max,
        length: None,
    };
    Expr::new(kind, Type::String { max }, span)
}

/// The first `to` bytes of a text in memory.
pub(crate) fn shortened(value: Expr, to: u32) -> Expr {
    let kind = match value.kind {
        ExprKind::Bytes {
            address,
            offset,
            access,
            ..
        } => ExprKind::Bytes {
            address,
            offset,
            size: to,
            access,
        },
        ExprKind::ConstantBytes(mut bytes) => {
            bytes.truncate(to as usize);
            ExprKind::ConstantBytes(bytes)
        }
        ExprKind::ReadString {
            address,
            space,
            max,
            length,
        } => {
            let max = max.min(to);
            let kind = ExprKind::ReadString {
                address,
                space,
                max,
                length,
            };
            return Expr::new(kind, Type::String { max }, value.span);
        }
        ExprKind::Ternary {
            condition,
            then: Some(then),
            otherwise,
        } => {
            let kind = ExprKind::Ternary {
                condition,
                then: Some(Box::new(shortened(*then, to))),
                otherwise: Box::new(shortened(*otherwise, to)),
            };
            // A chosen text is copied to the stack with a zero byte, in words of 8 bytes.
            let size = (to + 1).next_multiple_of(8);
            return Expr::new(kind, Type::CharArray { size }, value.span);
        }
        kind => return Expr { kind, ..value }, // comm, whose size is fixed
    };
    Expr::new(kind, Type::CharArray { size: to }, value.span)
}

/// Note with the names that there are in place of `name`: the nearest names, or else the first ones.
pub(crate) fn there_are(name: &str, all: &[&str]) -> String {
    const MAX: usize = 16;
    if all.is_empty() {
        return "it has none".to_owned();
    }
    let near = nearest(name, all.iter().copied());
    if all.len() > MAX && !near.is_empty() {
        return format!("near it: {} ({} in all)", near.join(", "), all.len());
    }
    let more = if all.len() > MAX {
        format!(", … ({} in all)", all.len())
    } else {
        String::new()
    };
    let shown: Vec<&str> = all.iter().copied().take(MAX).collect();
    format!("there are: {}{more}", shown.join(", "))
}

/// Bytes in which a text lies, a NUL among them where there is one.
pub(crate) fn room(text: &Expr) -> u32 {
    match text.ty {
        Type::CharArray { size } => size,
        Type::String { max } => max,
        _ => 0,
    }
}

/// The type of arithmetic on two scalars.
pub(super) fn common(left: &Expr, right: &Expr) -> Type {
    let unsigned = |e: &Expr| match (&e.ty, e.constant()) {
        // An enumerator is a name for a number, which most often is small.
        (
            Type::Integer {
                show: Show::Names(_), ..
            },
            Some(value),
        ) => i64::try_from(value).is_err() && !e.ty.is_signed(),
        (Type::Integer { size: 8, signed, .. }, _) => !signed,
        _ => false,
    };
    // A number that is never negative is the same, signed or unsigned.
    let fits = |e: &Expr| match e.constant() {
        Some(_) => is_natural(e),
        None => matches!(e.ty, Type::Bool) || e.ty.is_scalar() && !e.ty.is_signed(),
    };
    let address = |e: &Expr| matches!(e.ty, Type::Pointer(_));
    let both = |one: &Expr, other: &Expr| unsigned(one) && (unsigned(other) || fits(other));
    match address(left) || address(right) || both(left, right) || both(right, left) {
        true => Type::U64,
        false => Type::I64,
    }
}
