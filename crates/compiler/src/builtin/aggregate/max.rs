//! The built-in `max`: keeps the greatest value.

use super::adding::of_number;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_trace::aggregate::function;

pub(crate) static MAX: Builtin = Builtin {
    name: "max",
    numbered: false,
    usage: "max(value)",
    about: "keep the greatest value",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| of_number(checker, usage, function::MAX),
        lower: |lower, place, aggregation, value| {
            let rank = lower.rank(value, aggregation.signed);
            lower.raise(place, rank)
        },
    },
};
