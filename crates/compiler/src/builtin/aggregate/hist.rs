//! The built-in `hist`: a histogram by powers of two.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::aggregation::PendingAggregation;
use kestrel_trace::aggregate::{Aggregation, Buckets, function};

pub(crate) static HIST: Builtin = Builtin {
    name: "hist",
    numbered: false,
    usage: "hist(value[, bits])",
    about: "count the values by powers of two, each cut into 2^bits parts (bits is 0 to 5)",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| {
            let args = usage.positional(checker, 1, 2)?;
            let value = match args.first() {
                Some(value) => usage.only(
                    checker,
                    value,
                    |checker| checker.number(value),
                    |refused| format!("int arguments ({} provided)", refused.word),
                )?,
                None => return Err(checker.error(usage.span, "a number is missing")),
            };
            let bits = match args.get(1) {
                Some(bits) => {
                    let bits = usage.known(
                        checker,
                        bits,
                        "bits value, need integer literal",
                        "the precision of a histogram",
                    )?;
                    if !(0..=i64::from(Buckets::MAX_BITS)).contains(&bits) {
                        let message = format!("hist: bits {bits} must be 0..{}", Buckets::MAX_BITS);
                        return Err(checker.error(usage.span, message));
                    }
                    bits
                }
                None => 0,
            };
            Ok(PendingAggregation {
                aggregation: Aggregation::with(function::HIST, true, vec![bits]),
                value: Some(value),
            })
        },
        lower: |lower, place, aggregation, value| {
            lower.count_in(
                place,
                Buckets::Powers {
                    bits: aggregation.parameter(0) as u8,
                },
                value,
            )
        },
    },
};
