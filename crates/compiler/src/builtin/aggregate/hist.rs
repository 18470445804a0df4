//! The built-in `hist`: a histogram by powers of two.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::gathering::Gathering;
use kestrel_trace::aggregate::{Buckets, Gathered, function};

pub(crate) static HIST: Builtin = Builtin {
    name: "hist",
    numbered: false,
    usage: "hist(value[, bits])",
    about: "count the values by powers of two, each cut into 2^bits parts (bits is 0 to 5)",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| {
            let args = usage.positional(checker, 1, 2)?;
            let value = match args.first() {
                Some(value) => checker.number(value)?,
                None => return Err(checker.error(usage.span, "a number is missing")),
            };
            let bits = match args.get(1) {
                Some(bits) => checker.whole(
                    bits,
                    0..=i64::from(Buckets::MOST_BITS),
                    "the precision of a histogram",
                )?,
                None => 0,
            };
            Ok(Gathering {
                gathered: Gathered::with(function::HIST, true, vec![bits]),
                value: Some(value),
            })
        },
        lower: |lower, place, gathered, value| {
            lower.count_in(
                place,
                Buckets::Powers {
                    bits: gathered.parameter(0) as u8,
                },
                value,
            )
        },
    },
};
