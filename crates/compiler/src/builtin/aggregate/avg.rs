//! `avg`.

use super::super::{Builtin, Meaning};
use super::of_number;
use kestrel_trace::aggregate::ValueKind;

pub(crate) static AVG: Builtin = Builtin {
    name: "avg",
    numbered: false,
    usage: "avg(value)",
    about: "keep the values' average",
    meaning: Meaning::Aggregation(|checker, usage| {
        of_number(checker, usage, |signed| ValueKind::Average { signed })
    }),
};
