//! The built-in `sum`: adds values up.

use super::adding::{add, of_number};
use crate::builtin::row::{Builtin, Meaning};
use kestrel_trace::aggregate::function;

pub(crate) static SUM: Builtin = Builtin {
    name: "sum",
    numbered: false,
    usage: "sum(value)",
    about: "add the values up",
    meaning: Meaning::Aggregation {
        check: |checker, usage| of_number(checker, usage, function::SUM),
        lower: add,
    },
};
