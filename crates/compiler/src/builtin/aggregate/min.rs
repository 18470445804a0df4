//! The built-in `min`: keeps the least value.

use super::adding::of_number;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::ir::{AluOp, Bits};
use kestrel_trace::aggregate::function;

pub(crate) static MIN: Builtin = Builtin {
    name: "min",
    numbered: false,
    usage: "min(value)",
    about: "keep the least value",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| of_number(checker, usage, function::MIN),
        lower: |lower, place, aggregation, value| {
            let rank = lower.rank(value, aggregation.signed);
            let complement = lower.b.alu(AluOp::Xor, Bits::B64, rank, -1);
            lower.raise(place, complement)
        },
    },
};
