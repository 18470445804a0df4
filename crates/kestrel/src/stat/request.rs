//! What is asked to be counted.

use super::scope::{Scope, Split};
use kestrel_catalog::catalog::Via;

/// What is to be counted, and how it is told apart.
#[derive(Debug)]
pub struct Request {
    /// Texts as `-e` takes them; without any perf's usual counters.
    pub events: Vec<String>,
    /// Whose.
    pub scope: Scope,
    /// Told apart by what.
    pub split: Split,
    /// How tracepoints are read.
    pub via: Via,
}
