//! The built-in `stats`: keeps count, average and sum of values.

use super::adding::{add_with_count, of_number};
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::aggregate::function;

pub(crate) static STATS: Builtin = Builtin {
    name: "stats",
    numbered: false,
    usage: "stats(value)",
    about: "keep how many values there were, their average and their sum",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| of_number(checker, usage, function::STATS),
        lower: add_with_count,
    },
};
