//! The built-in `unwatch`: removes the watchpoints of an address.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static UNWATCH: Builtin = Builtin {
    name: "unwatch",
    numbered: false,
    usage: "unwatch(address)",
    about: "remove the program's watchpoints of an address: their debug registers are free again",
    kind: BuiltinKind::Statement(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let mut values = Vec::new();
        for address in &args {
            values.push(checker.as_number(address)?);
        }
        checker.output("unwatch", "", values, usage.span)
    }),
};
