//! `interval`: a clock that ticks on one CPU, for what is to be done from time to time.

use super::clock::Clock;
use crate::error::Result;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind;

/// The kind of events made by a clock on one CPU.
pub(in crate::catalog) const INTERVAL: Clock = Clock::new(event_kind::INTERVAL, false);

/// Period of an event of this kind: as text, and in ns.
///
/// # Errors
/// When the specification does not say it.
pub fn interval(spec: &EventSpec) -> Result<(String, u64)> {
    INTERVAL.period(spec)
}
