//! The built-in `buf`: the bytes at an address.

use crate::builtin::row::{Builtin, BuiltinKind, Use};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Access, BinaryOp, Expr, ExprKind, Pointer, Type};
use crate::check::value::{constant, operation};
use crate::lang::ast;
use kestrel_trace::layout::Space;

/// Most bytes.
const MAX: u32 = 1023;
/// Most bytes where the length is not a constant and the third argument is left out.
const USUAL: u32 = 63;

pub(crate) static BUF: Builtin = Builtin {
    name: "buf",
    numbered: false,
    usage: "buf(address[, bytes[, at most]])",
    about: "bytes of memory at an address, NULs included; without a length, all of an array",
    kind: BuiltinKind::Value(read),
};

fn read(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Expr> {
    let most = if checker.globals.infers_types { 2 } else { 3 };
    let args = usage.positional(checker, 1, most)?;
    let Some(address) = args.first() else {
        return Err(checker.error(usage.span, "an address is missing"));
    };
    let value = checker.expression(address)?;
    let own = match (&value.kind, &value.ty) {
        (ExprKind::ConstantBytes(_), _) if checker.globals.infers_types && args.len() < 2 => None,
        (ExprKind::ConstantBytes(known), _) => Some(known.len() as u32),
        (ExprKind::Bytes { size, .. }, Type::Array { .. } | Type::CharArray { .. }) => Some(*size),
        _ => None,
    };
    let (length, max) = limits(checker, usage, (args.get(1), args.get(2)), (own, &value.ty))?;
    if let (ExprKind::ConstantBytes(known), Some(length)) = (&value.kind, length.constant()) {
        return Ok(known_bytes(known, length.min(max.into()) as usize, usage.span));
    }
    let (value, space) = place(checker, value, address.span)?;
    let kind = ExprKind::ReadMemory {
        address: Box::new(value),
        space,
        max,
        length: Box::new(length),
    };
    Ok(Expr::new(kind, Type::Memory { max }, usage.span))
}

/// Length of the buffer, and its upper bound.
fn limits(
    checker: &mut Checker<'_>,
    usage: &Use<'_>,
    (bytes, most): (Option<&&ast::Expr>, Option<&&ast::Expr>),
    (own, of): (Option<u32>, &Type),
) -> Checked<(Expr, u32)> {
    let room = match checker.globals.infers_types {
        true => checker.longest(),
        false => MAX,
    };
    let Some(bytes) = bytes else {
        return match own {
            Some(own) => Ok((constant(own.into(), Type::U64, usage.span), own.clamp(1, room))),
            None => {
                let (word, _) = checker.spelled_type(of);
                let message = format!("buf() expects a length argument for non-array type {word}");
                Err(checker.error(usage.span, message))
            }
        };
    };
    let length = usage.scalar(checker, bytes)?;
    if let Some(known) = length.constant().map(u64::cast_signed)
        && known < 0
        && length.ty.is_signed()
        && checker.globals.infers_types
    {
        let message = format!("the length of memory cannot be negative ({known})");
        return Err(checker.error(bytes.span, message));
    }
    let max = match (most, length.constant()) {
        (Some(most), _) => checker.limit(most, room, "the most bytes of memory")?,
        (None, Some(known)) if checker.globals.infers_types => known.clamp(1, room.into()) as u32,
        (None, Some(_)) => checker.limit(bytes, MAX, "a number of bytes of memory")?,
        (None, None) if checker.globals.infers_types => own.unwrap_or(room).clamp(1, room),
        (None, None) => USUAL,
    };
    Ok((length, max))
}

/// The first `length` bytes of a constant text as they are kept, padded with zeroes.
fn known_bytes(known: &[u8], length: usize, span: ast::Span) -> Expr {
    let mut bytes = (length as u32).to_le_bytes().to_vec();
    bytes.extend(known.iter().copied().chain(std::iter::repeat(0)).take(length));
    let max = (length as u32).max(1);
    Expr::new(ExprKind::ConstantBytes(bytes), Type::Buffer { max }, span)
}

/// The address that a value is or lies at, and whose memory it is, where that is known.
fn place(checker: &mut Checker<'_>, value: Expr, span: ast::Span) -> Checked<(Expr, Option<Space>)> {
    let value = match value.kind {
        // A literal is nowhere in memory: it is put into the program's stack frame.
        ExprKind::ConstantBytes(known) => {
            let words = known.chunks(8).map(|bytes| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                constant(u64::from_le_bytes(word), Type::U64, span)
            });
            let kind = ExprKind::FrameWords(words.collect());
            return Ok((Expr::new(kind, Type::U64, span), Some(Space::Kernel)));
        }
        ExprKind::Bytes { .. } => value,
        _ if value.ty.is_string() => checker.in_memory(value),
        _ => value,
    };
    match (&value.ty, value.kind) {
        (
            Type::Array { .. } | Type::CharArray { .. } | Type::Struct(..) | Type::Tuple(_),
            ExprKind::Bytes {
                address,
                offset,
                access,
                ..
            },
        ) => {
            let space = match access {
                Access::User => Space::User,
                Access::Kernel | Access::Direct | Access::Context => Space::Kernel,
            };
            let offset = constant(i64::from(offset).cast_unsigned(), Type::U64, span);
            let at = operation(BinaryOp::Add, Type::U64, *address, offset, span);
            Ok((at, Some(space)))
        }
        (Type::Pointer(pointer), kind) => {
            let space = match pointer {
                Pointer {
                    space: Space::User, ..
                } => Some(Space::User),
                _ => None,
            };
            let ty = value.ty.clone();
            Ok((Expr::new(kind, ty, value.span), space))
        }
        (ty, kind) if ty.is_word() => {
            let ty = value.ty.clone();
            Ok((Expr::new(kind, ty, value.span), None))
        }
        _ => Err(checker.error(span, "an address is wanted here")),
    }
}
