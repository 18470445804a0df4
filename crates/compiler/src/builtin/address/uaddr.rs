//! The built-in `uaddr`: the address of a symbol of the probed program.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Pointee, Pointer, Type};
use kestrel_trace::layout::Space;

pub(crate) static UADDR: Builtin = Builtin {
    name: "uaddr",
    numbered: false,
    usage: "uaddr(\"symbol\")",
    about: "the address of a variable or function of the probed program, in the process that runs, at uprobe, uretprobe and usdt",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(symbol) = args.first() else {
            return Err(checker.error(usage.span, "the name of a symbol is missing"));
        };
        let value = checker.expression(symbol)?;
        let ExprKind::ConstantBytes(name) = &value.kind else {
            return Err(usage.wants_literal(checker, symbol));
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let event = checker.context.name.clone();
        let key = (event, name);
        let Some(place) = checker.globals.user_places.get(&key).cloned() else {
            let (event, name) = &key;
            let message = match event.split(':').nth(1) {
                Some(file) if event.contains("probe:") || event.starts_with("usdt:") => {
                    format!("Could not resolve symbol: {file}:{name}")
                }
                _ => format!("Could not resolve symbol: {name} at {event}"),
            };
            checker.globals.shapes.user_symbols.insert(key);
            return Err(checker.error(usage.span, message));
        };
        let address = checker.rule("uaddr", &place.address, Type::U64, usage.span)?;
        let size = match place.size {
            1 | 2 | 4 => place.size as u8,
            _ => 8,
        };
        let ty = Type::Pointer(Pointer {
            to: Pointee::Integer { size, signed: false },
            levels: 0,
            space: Space::User,
            trusted: false,
            symbolic: false,
        });
        Ok(Expr { ty, ..address })
    }),
};
