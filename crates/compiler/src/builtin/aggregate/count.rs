//! The built-in `count`: counts how often it is reached.

use super::adding::add;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::aggregation::PendingAggregation;
use kestrel_trace::aggregate::{Aggregation, function};

pub(crate) static COUNT: Builtin = Builtin {
    name: "count",
    numbered: false,
    usage: "count()",
    about: "count how often this is passed",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| {
            usage.alone(checker)?;
            Ok(PendingAggregation {
                aggregation: Aggregation::new(function::COUNT, false),
                value: None,
            })
        },
        lower: add,
    },
};
