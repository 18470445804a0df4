//! The built-in `entry`: a value at the entry of the call that returns.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::lang::diag::Diagnostic;

pub(crate) static ENTRY: Builtin = Builtin {
    name: "entry",
    numbered: false,
    usage: "entry.VALUE",
    about: "at a return, a value of the same call at its entry: entry.arg0, entry.args.NAME, entry.nsecs, entry.reg(\"di\")",
    kind: BuiltinKind::Value(|checker, usage| {
        let diagnostic = Diagnostic::error(
            usage.span,
            "\"entry\" is the entry of this call: name what was known there",
        );
        Err(checker.report(diagnostic.hint("entry.arg0, entry.args.NAME, entry.nsecs, entry.reg(\"di\")")))
    }),
};
