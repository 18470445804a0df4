//! Checks and code that the aggregations have in common.

use crate::builtin::row::Use;
use crate::check::aggregation::PendingAggregation;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::MapPlace;
use crate::codegen::lower::Lower;
use crate::error::Error;
use crate::ir::{Condition, Vreg, Width};
use kestrel_trace::aggregate::Aggregation;
use kestrel_trace::aggregate::aggregation::Function;

/// An aggregation of one number.
pub(super) fn of_number(
    checker: &mut Checker<'_>,
    usage: &Use<'_>,
    function: &'static dyn Function,
) -> Checked<PendingAggregation> {
    let args = usage.positional(checker, 1, 1)?;
    let value = match args.first() {
        Some(value) => usage.number(checker, value)?,
        None => return Err(checker.error(usage.span, "a number is missing")),
    };
    Ok(PendingAggregation {
        aggregation: Aggregation::new(function, value.ty.is_signed()),
        value: Some(value),
    })
}

/// Adds the value to the first word.
pub(super) fn add(
    lower: &mut Lower<'_>,
    place: &MapPlace,
    aggregation: &Aggregation,
    value: Vreg,
) -> Result<(), Error> {
    // Where all values are more than 0, no sum is 0.
    let condition = match aggregation.signed {
        true => Condition::SignedLessEqual,
        false => Condition::Equal,
    };
    lower.mark_where(&place.map, value, condition, 0);
    lower.with_element_or_new(place, &mut |lower, element, _| {
        lower.b.atomic_add(Width::B8, element, 0, value);
    })
}

/// Adds 1 to the first word and the value to the second.
pub(super) fn add_with_count(
    lower: &mut Lower<'_>,
    place: &MapPlace,
    _: &Aggregation,
    value: Vreg,
) -> Result<(), Error> {
    lower.with_element_or_new(place, &mut |lower, element, _| {
        lower.b.atomic_add(Width::B8, element, 0, 1);
        lower.b.atomic_add(Width::B8, element, 8, value);
    })
}
