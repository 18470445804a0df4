//! Request to count events.

use super::scope::{Scope, Split};
use kestrel_catalog::catalog::Via;

/// Request to count events, and how the counts are split.
#[derive(Debug)]
pub struct CountRequest {
    /// Texts as `-e` takes them; without any perf's usual counters.
    pub events: Vec<String>,
    /// The processes and CPUs whose events are counted.
    pub scope: Scope,
    /// Told apart by what.
    pub split: Split,
    /// Way of reading tracepoints.
    pub via: Via,
}
