//! `kaddr`.

use crate::builtin::row::{Builtin, Meaning};
use crate::check::tree::{ExprKind, Type};
use crate::check::value::constant;

pub(crate) static KADDR: Builtin = Builtin {
    name: "kaddr",
    numbered: false,
    usage: "kaddr(\"symbol\")",
    about: "the address of a symbol of the kernel, found before the program runs",
    meaning: Meaning::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(symbol) = args.first() else {
            return Err(checker.error(usage.span, "the name of a symbol is missing"));
        };
        let value = checker.expression(symbol)?;
        let ExprKind::Text(name) = &value.kind else {
            return Err(checker.error(symbol.span, "the name of a symbol is a text that is known now"));
        };
        let name = String::from_utf8_lossy(name).into_owned();
        match checker.globals.addresses.get(&name) {
            Some(address) => Ok(constant(*address, Type::U64, usage.span)),
            None => {
                let message = format!("Failed to resolve kernel symbol: {name}");
                checker.globals.shapes.symbols.insert(name);
                Err(checker.error(usage.span, message))
            }
        }
    }),
};
