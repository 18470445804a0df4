//! The aggregations of maps (`count()`, `hist()`, …), one file and one row each: how their values are read and shown. The code that updates them is the compiler's.

mod avg;
mod buckets;
mod count;
mod extreme;
mod hist;
mod lhist;
mod max;
mod mean;
mod min;
mod stats;
mod sum;
pub mod tseries;

pub use avg::AVG;
pub use count::COUNT;
pub use hist::HIST;
pub use lhist::LHIST;
pub use max::MAX;
pub use min::MIN;
pub use stats::STATS;
pub use sum::SUM;

use super::aggregation::{Function, FunctionRef};
use serde::{Deserialize, Deserializer};

/// All aggregations.
pub(super) static FUNCTIONS: &[&dyn Function] =
    &[COUNT, SUM, MIN, MAX, AVG, STATS, HIST, LHIST, tseries::TSERIES];

impl<'de> Deserialize<'de> for FunctionRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = FUNCTIONS.iter().find(|function| function.name() == name);
        known
            .map(|function| Self(*function))
            .ok_or_else(|| serde::de::Error::custom(format!("there is no map function {name}")))
    }
}
