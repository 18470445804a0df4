//! `stats`.

use super::super::{Builtin, Meaning};
use super::of_number;
use kestrel_trace::aggregate::ValueKind;

pub(crate) static STATS: Builtin = Builtin {
    name: "stats",
    numbered: false,
    usage: "stats(value)",
    about: "keep how many values there were, their average and their sum",
    meaning: Meaning::Aggregation(|checker, usage| {
        of_number(checker, usage, |signed| ValueKind::Stats { signed })
    }),
};
