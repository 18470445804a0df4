//! The built-in `macaddr`: the address of a network card as people write it.

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::tree::{Access, Expr, ExprKind, Pointer};
use crate::check::walk::MemoryPlace;
use kestrel_trace::layout::{Named, Space};

pub(crate) static MACADDR: Builtin = Builtin {
    name: "macaddr",
    numbered: false,
    usage: "macaddr(array)",
    about: "an address of a network card: 00:1b:21:3c:9d:f8",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(array) = args.first() else {
            return Err(checker.error(usage.span, "an array is missing"));
        };
        let array = checker.expression(array)?;
        // The result of a cast has its bytes nowhere yet.
        let array = match array.ty {
            Type::Array { .. } | Type::CharArray { .. } => checker.in_memory(array),
            _ => array,
        };
        // A number is an address: `macaddr(*(uint64 *)…)`.
        let array = match array.ty {
            Type::Integer { .. } if checker.globals.infers_types => Expr {
                ty: Type::Pointer(Pointer::untyped(checker.context.space)),
                ..array
            },
            _ => array,
        };
        let six = Type::Array {
            element: Box::new(Type::integer(1, false)),
            count: 6,
        };
        let part = match (&array.ty, array.kind.clone()) {
            (
                Type::Array { .. } | Type::CharArray { .. },
                ExprKind::Bytes {
                    address,
                    offset,
                    access,
                    ..
                },
            ) => {
                let spot = MemoryPlace {
                    address: *address,
                    offset: i64::from(offset),
                    access,
                };
                checker.value_at(spot, six, usage.span)?
            }
            (Type::Pointer(pointer), _) => {
                let access = match pointer.space {
                    Space::User => Access::User,
                    Space::Kernel => Access::Kernel,
                };
                let spot = MemoryPlace {
                    address: array,
                    offset: 0,
                    access,
                };
                checker.value_at(spot, six, usage.span)?
            }
            _ => return Err(checker.error(array.span, "six bytes are wanted here")),
        };
        Ok(named(Named::Mac, vec![part], usage.span))
    }),
};
