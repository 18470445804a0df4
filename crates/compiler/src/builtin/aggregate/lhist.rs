//! The built-in `lhist`: a histogram with steps of equal width.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::aggregation::PendingAggregation;
use kestrel_trace::aggregate::{Aggregation, Buckets, function};

pub(crate) static LHIST: Builtin = Builtin {
    name: "lhist",
    numbered: false,
    usage: "lhist(value, min, max, step)",
    about: "count the values in steps of equal width between min and max",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| {
            let args = usage.positional(checker, 4, 4)?;
            let [value, min, max, step] = args.as_slice() else {
                return Err(checker.error(usage.span, "an argument is missing"));
            };
            let what = "a border of a histogram";
            let value = usage.only(
                checker,
                value,
                |checker| checker.number(value),
                |refused| format!("int arguments ({} provided)", refused.word),
            );
            let least = usage.known(checker, min, "min value (must be a literal)", what);
            let most = usage.known(checker, max, "max value (must be a literal)", what);
            let width = usage.known(checker, step, "step value", "the step of a histogram");
            let (value, least, most, width) = (value?, least?, most?, width?);
            if width < 1 {
                let message = format!("lhist() step must be >= 1 ({width} provided)");
                return Err(checker.error(usage.span, message));
            }
            let span = i128::from(most) - i128::from(least);
            if span <= 0 {
                let message =
                    format!("lhist() min must be less than max (provided min {least} and max {most})");
                return Err(checker.error(usage.span, message));
            }
            if span < i128::from(width) {
                let message = format!(
                    "lhist() step is too large for the given range (provided step {width} for range {span})"
                );
                return Err(checker.error(usage.span, message));
            }
            // All steps are of one width: what is left of the range lies above the last one.
            let most = (i128::from(least) + span / i128::from(width) * i128::from(width)) as i64;
            if span > i128::from(width) * i128::from(Buckets::MAX_LINEAR) {
                let message = format!(
                    "lhist() too many buckets, must be <= {} (would need {})",
                    Buckets::MAX_LINEAR,
                    span / i128::from(width)
                );
                return Err(checker.error(usage.span, message));
            }
            Ok(PendingAggregation {
                aggregation: Aggregation::with(function::LHIST, true, vec![least, most, width]),
                value: Some(value),
            })
        },
        lower: |lower, place, aggregation, value| {
            let [min, max, step] = [0, 1, 2].map(|index| aggregation.parameter(index));
            lower.count_in(place, Buckets::Linear { min, max, step }, value)
        },
    },
};
