//! The built-in `ntop`: an IP address as people write it.

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Access, Expr, ExprKind, Type};
use crate::check::value::{constant, narrowed};
use crate::check::walk::MemoryPlace;
use kestrel_trace::layout::{Named, Space};

const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;

pub(crate) static NTOP: Builtin = Builtin {
    name: "ntop",
    numbered: false,
    usage: "ntop([family, ]address)",
    about: "an address of IPv4 (4 bytes) or IPv6 (16 bytes) as people write it",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 2)?;
        let (family, address) = match args.as_slice() {
            [family, address] => (Some(checker.scalar(family)?), checker.expression(address)?),
            [address] => (None, checker.expression(address)?),
            _ => return Err(checker.error(usage.span, "an address is missing")),
        };
        // `pton(…)` is known now.
        let address = match (&address.ty, &address.kind) {
            (Type::Array { .. }, ExprKind::ConstantBytes(_)) => checker.in_memory(address),
            _ => address,
        };
        let span = usage.span;
        let number = |value| constant(value, Type::integer(4, false), span);
        let (own, parts): (u64, Vec<Expr>) = match (&address.ty, address.kind.clone()) {
            (Type::Integer { .. }, _) => {
                let four = narrowed(address, Type::integer(4, false), span);
                (AF_INET, vec![four])
            }
            (
                Type::Array { .. } | Type::CharArray { .. } | Type::Struct(..),
                ExprKind::Bytes {
                    address: at,
                    offset,
                    access,
                    size,
                },
            ) => {
                let count = if size >= 16 { 16 } else { 4 };
                let ty = Type::Array {
                    element: Box::new(Type::integer(1, false)),
                    count,
                };
                let spot = MemoryPlace {
                    address: *at,
                    offset: i64::from(offset),
                    access,
                };
                let own = if count == 16 { AF_INET6 } else { AF_INET };
                (own, vec![checker.value_at(spot, ty, span)?])
            }
            (Type::Pointer(pointer), _) => {
                let access = match pointer.space {
                    Space::User => Access::User,
                    Space::Kernel => Access::Kernel,
                };
                let spot = MemoryPlace {
                    address,
                    offset: 0,
                    access,
                };
                let ty = Type::Array {
                    element: Box::new(Type::integer(1, false)),
                    count: 16,
                };
                (AF_INET6, vec![checker.value_at(spot, ty, span)?])
            }
            _ => {
                let message = "ntop() argument must be 4 or 16 bytes in size";
                return Err(checker.error(usage.span, message));
            }
        };
        let family = family.map_or(number(own), |family| {
            narrowed(family, Type::integer(4, false), span)
        });
        let mut all = vec![family];
        all.extend(parts);
        Ok(named(Named::Inet, all, span))
    }),
};
