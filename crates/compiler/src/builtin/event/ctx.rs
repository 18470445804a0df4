//! The built-in `ctx`: the address of the program's context.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Pointer, Type};
use kestrel_trace::layout::Space;

pub(crate) static CTX: Builtin = Builtin {
    name: "ctx",
    numbered: false,
    usage: "ctx",
    about: "the address of what the kernel gives the program; what lies there is said by a cast",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let ty = Type::Pointer(Pointer::untyped(Space::Kernel));
        Ok(Expr::new(ExprKind::ContextPointer, ty, usage.span))
    }),
};
