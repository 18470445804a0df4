//! Built-ins that gather values in a map: `@x[keys] = count()`; bare, in a map of their own by event.

pub(super) mod avg;
pub(super) mod count;
pub(super) mod hist;
pub(super) mod lhist;
pub(super) mod max;
pub(super) mod min;
pub(super) mod stats;
pub(super) mod sum;
pub(super) mod tseries;

use super::{Builtin, Use};
use crate::check::tree::MapPlace;
use crate::check::{Checked, Checker, Gathering};
use crate::codegen::lower::Lower;
use crate::error::Error;
use crate::ir::{Vreg, Width};
use kestrel_trace::aggregate::Gathered;
use kestrel_trace::aggregate::gather::Function;

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
    &tseries::TSERIES,
];

/// An aggregation of one number.
fn of_number(
    checker: &mut Checker<'_>,
    usage: &Use<'_>,
    function: &'static dyn Function,
) -> Checked<Gathering> {
    let args = usage.positional(checker, 1, 1)?;
    let value = match args.first() {
        Some(value) => checker.number(value)?,
        None => return Err(checker.error(usage.span, "a number is missing")),
    };
    Ok(Gathering {
        gathered: Gathered::new(function, value.ty.is_signed()),
        value: Some(value),
    })
}

/// Adds the value to the first word.
fn add(lower: &mut Lower<'_>, place: &MapPlace, _: &Gathered, value: Vreg) -> Result<(), Error> {
    lower.on_element(place, &mut |lower, element, _| {
        lower.b.atomic_add(Width::B8, element, 0, value);
    })
}

/// Adds 1 to the first word and the value to the second.
fn add_with_count(lower: &mut Lower<'_>, place: &MapPlace, _: &Gathered, value: Vreg) -> Result<(), Error> {
    lower.on_element(place, &mut |lower, element, _| {
        lower.b.atomic_add(Width::B8, element, 0, 1);
        lower.b.atomic_add(Width::B8, element, 8, value);
    })
}
