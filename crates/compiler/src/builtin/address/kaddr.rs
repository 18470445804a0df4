//! The built-in `kaddr`: the address of a kernel symbol.

use super::symbol::address_of;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::constant;

pub(crate) static KADDR: Builtin = Builtin {
    name: "kaddr",
    numbered: false,
    usage: "kaddr(\"symbol\")",
    about: "the address of a symbol of the kernel, found before the program runs",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(symbol) = args.first() else {
            return Err(checker.error(usage.span, "the name of a symbol is missing"));
        };
        let address = address_of(checker, usage, symbol)?;
        Ok(constant(address, Type::U64, usage.span))
    }),
};
