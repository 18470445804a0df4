//! The built-in `elapsed`: nanoseconds since tracing started.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{BinaryOp, Expr, ExprKind, Intrinsic, Type};
use kestrel_bpf::helper;

pub(crate) static ELAPSED: Builtin = Builtin {
    name: "elapsed",
    numbered: false,
    usage: "elapsed",
    about: "nanoseconds since tracing started",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let kind = ExprKind::Binary {
            op: BinaryOp::Subtract,
            signed: false,
            left: Box::new(usage.intrinsic(Intrinsic::varying(helper::KTIME_GET_NS), Type::U64)),
            right: Box::new(usage.intrinsic(Intrinsic::StartTime, Type::U64)),
        };
        Ok(Expr::new(kind, Type::U64, usage.span))
    }),
};
