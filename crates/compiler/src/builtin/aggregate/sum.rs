//! `sum`.

use super::super::{Builtin, Meaning};
use super::of_number;
use kestrel_trace::aggregate::ValueKind;

pub(crate) static SUM: Builtin = Builtin {
    name: "sum",
    numbered: false,
    usage: "sum(value)",
    about: "add the values up",
    meaning: Meaning::Aggregation(|checker, usage| {
        of_number(checker, usage, |signed| ValueKind::Sum { signed })
    }),
};
