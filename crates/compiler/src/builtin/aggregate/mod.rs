//! Built-ins that gather values in a map: `@x[keys] = count()`; bare, in a map of their own by event.

pub(super) mod avg;
pub(super) mod count;
pub(super) mod hist;
pub(super) mod lhist;
pub(super) mod max;
pub(super) mod min;
pub(super) mod stats;
pub(super) mod sum;

use super::{Builtin, Use};
use crate::check::{Checked, Checker, Gathered};
use kestrel_trace::aggregate::ValueKind;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &count::COUNT,
    &sum::SUM,
    &min::MIN,
    &max::MAX,
    &avg::AVG,
    &stats::STATS,
    &hist::HIST,
    &lhist::LHIST,
];

/// An aggregation of one number; `kind` is told whether it is signed.
fn of_number(checker: &mut Checker<'_>, usage: &Use<'_>, kind: fn(bool) -> ValueKind) -> Checked<Gathered> {
    let args = usage.positional(checker, 1, 1)?;
    let value = match args.first() {
        Some(value) => checker.number(value)?,
        None => return Err(checker.error(usage.span, "a number is missing")),
    };
    Ok(Gathered {
        kind: kind(value.ty.is_signed()),
        value: Some(value),
    })
}
