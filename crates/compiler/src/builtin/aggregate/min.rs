//! `min`.

use super::super::{Builtin, Meaning};
use super::of_number;
use kestrel_trace::aggregate::ValueKind;

pub(crate) static MIN: Builtin = Builtin {
    name: "min",
    numbered: false,
    usage: "min(value)",
    about: "keep the least value",
    meaning: Meaning::Aggregation(|checker, usage| {
        of_number(checker, usage, |signed| ValueKind::Min { signed })
    }),
};
