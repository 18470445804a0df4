//! The built-in `memcmp`: compares bytes of strings, arrays or memory.

use crate::builtin::row::{Builtin, BuiltinKind, Use};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Access, Expr, ExprKind, Type};
use crate::lang::ast;
use kestrel_trace::layout::Space;

/// Most bytes that are compared.
const MAX: u32 = 1024;

pub(crate) static MEMCMP: Builtin = Builtin {
    name: "memcmp",
    numbered: false,
    usage: "memcmp(left, right, bytes)",
    about: "0 where the first bytes of two strings, arrays or addresses are the same; else negative where the first differing byte of the left is less",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 3, 3)?;
        let [left, right, bytes] = args.as_slice() else {
            return Err(checker.error(usage.span, "two values and a number of bytes are wanted"));
        };
        let size = checker.limit(bytes, MAX, "the number of bytes")?;
        let (left, right) = (
            memory(checker, usage, left, size)?,
            memory(checker, usage, right, size)?,
        );
        let kind = ExprKind::BytesOrder {
            left: Box::new(left),
            right: Box::new(right),
            bytes: size,
        };
        Ok(Expr::new(kind, Type::I64, usage.span))
    }),
};

/// The compared memory, at least so many bytes of it.
fn memory(checker: &mut Checker<'_>, usage: &Use<'_>, value: &ast::Expr, size: u32) -> Checked<Expr> {
    let value = checker.expression(value)?;
    let span = value.span;
    match &value.ty {
        ty if ty.is_string() => {
            let mut statements = Vec::new();
            let (address, _) = checker.string_in_memory(value, size, &mut statements);
            let bytes = bytes_at(address, size, Access::Kernel, span);
            Ok(checker.behind(statements, bytes, span))
        }
        Type::Pointer(pointer) => {
            let access = match pointer.space {
                Space::User => Access::User,
                Space::Kernel => Access::Kernel,
            };
            Ok(bytes_at(value, size, access, span))
        }
        _ if !value.ty.is_scalar() && checker.size_of(&value.ty).is_some_and(|own| own >= size) => Ok(value),
        ty => {
            let message = format!("{} has no {size} bytes to compare", checker.describe(ty));
            Err(checker.error(usage.span, message))
        }
    }
}

/// `size` bytes at an address.
pub(super) fn bytes_at(address: Expr, size: u32, access: Access, span: ast::Span) -> Expr {
    let kind = ExprKind::Bytes {
        address: Box::new(address),
        offset: 0,
        size,
        access,
    };
    Expr::new(kind, Type::CharArray { size }, span)
}
