//! The built-in `bswap`: a number with its bytes in the other order.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Type};

pub(crate) static BSWAP: Builtin = Builtin {
    name: "bswap",
    numbered: false,
    usage: "bswap(number)",
    about: "the number with its bytes in the other order",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(number) = args.first() else {
            return Err(checker.error(usage.span, "a number is missing"));
        };
        let number = usage.only(
            checker,
            number,
            |checker| checker.scalar(number),
            |refused| format!("integer arguments ({} provided)", refused.word),
        )?;
        let size = match number.ty {
            Type::Integer { size, .. } => size,
            _ => 8,
        };
        let ty = Type::integer(size, false);
        if size == 1 {
            return Ok(Expr { ty, ..number });
        }
        let kind = ExprKind::SwapBytes {
            value: Box::new(number),
            size,
        };
        Ok(Expr::new(kind, ty, usage.span))
    }),
};
