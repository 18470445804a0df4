//! The built-in `avg`: keeps the average of values.

use super::adding::{add_with_count, of_number};
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::aggregate::function;

pub(crate) static AVG: Builtin = Builtin {
    name: "avg",
    numbered: false,
    usage: "avg(value)",
    about: "keep the values' average",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| of_number(checker, usage, function::AVG),
        lower: add_with_count,
    },
};
