//! `max`.

use super::super::{Builtin, Meaning};
use super::of_number;
use kestrel_trace::aggregate::ValueKind;

pub(crate) static MAX: Builtin = Builtin {
    name: "max",
    numbered: false,
    usage: "max(value)",
    about: "keep the greatest value",
    meaning: Meaning::Aggregation(|checker, usage| {
        of_number(checker, usage, |signed| ValueKind::Max { signed })
    }),
};
