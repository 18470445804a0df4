//! The built-in `to`: writes a record to a named buffer.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static TO: Builtin = Builtin {
    name: "to",
    numbered: false,
    usage: "to(\"buffer\"[, args | value | name = value, …])",
    about: "write one record, as record() does, to a buffer; also in it: record(…, to(\"buffer\"))",
    kind: BuiltinKind::Statement(|checker, usage| checker.record_to(usage)),
};
