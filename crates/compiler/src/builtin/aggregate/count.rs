//! `count`.

use super::super::{Builtin, Meaning};
use crate::check::Gathered;
use kestrel_trace::aggregate::ValueKind;

pub(crate) static COUNT: Builtin = Builtin {
    name: "count",
    numbered: false,
    usage: "count()",
    about: "count how often this is passed",
    meaning: Meaning::Aggregation(|checker, usage| {
        usage.alone(checker)?;
        Ok(Gathered {
            kind: ValueKind::Count,
            value: None,
        })
    }),
};
