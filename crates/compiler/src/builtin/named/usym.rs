//! The built-in `usym`: the function of the process that an address lies in.

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{BinaryOp, Intrinsic, Type};
use crate::check::value::{constant, narrowed, operation};
use kestrel_trace::layout::Named;

pub(crate) static USYM: Builtin = Builtin {
    name: "usym",
    numbered: false,
    usage: "usym(address)",
    about: "the function of the process that an address lies in",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(address) = args.first() else {
            return Err(checker.error(usage.span, "an address is missing"));
        };
        let address = checker.phrased(
            address.span,
            usage.span,
            |checker| checker.scalar(address),
            |_| format!("{}() expects an integer or pointer argument", usage.name),
        )?;
        let span = usage.span;
        let address = narrowed(address, Type::U64, span);
        let both = usage.intrinsic(Intrinsic::Identity, Type::U64);
        let by = constant(32, Type::U64, span);
        let pid = operation(BinaryOp::ShiftRight, Type::U64, both, by, span);
        // The process's number, and zeroes behind it.
        Ok(named(Named::UserSymbol, vec![address, pid], span))
    }),
};
