//! The built-in `comm`: the name of the thread that runs.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Type};

pub(crate) static COMM: Builtin = Builtin {
    name: "comm",
    numbered: false,
    usage: "comm",
    about: "the thread's name, at most 15 bytes",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(Expr::new(
            ExprKind::Comm,
            Type::CharArray { size: 16 },
            usage.span,
        ))
    }),
};
