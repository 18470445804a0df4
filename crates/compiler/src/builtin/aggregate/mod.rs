//! Aggregations, built-ins that add values up in a map: `@x[keys] = count()`; bare, in a map of their own by event.

mod adding;
pub(super) mod avg;
pub(super) mod count;
pub(super) mod hist;
pub(super) mod lhist;
pub(super) mod max;
pub(super) mod min;
pub(super) mod stats;
pub(super) mod sum;
pub(super) mod tseries;

use super::row::Builtin;

/// Rows of these built-ins.
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
