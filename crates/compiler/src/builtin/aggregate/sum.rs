//! The built-in `sum`: adds values up.

use super::adding::{add, of_number};
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::aggregate::function;

pub(crate) static SUM: Builtin = Builtin {
    name: "sum",
    numbered: false,
    usage: "sum(value)",
    about: "add the values up",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| of_number(checker, usage, function::SUM),
        lower: add,
    },
};
