//! The built-in `record`: writes a record into a buffer.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static RECORD: Builtin = Builtin {
    name: "record",
    numbered: false,
    usage: "record([args | value | name = value, …])",
    about: "write one record: all fields of the event (args), or the values given",
    kind: BuiltinKind::Statement(|checker, usage| checker.record(usage.args.unwrap_or_default(), usage.span)),
};
