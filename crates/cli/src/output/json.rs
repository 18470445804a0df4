//! Data of the library as lines of JSON, the keys of each line sorted.

use crate::exit::{Exit, Failure};
use serde::Serialize;

/// A line of JSON.
pub(crate) fn line(data: &impl Serialize) -> Result<String, Failure> {
    let value = serde_json::to_value(data);
    let value = value.map_err(|error| Failure::new(Exit::Failed, format!("cannot write JSON: {error}")))?;
    Ok(value.to_string())
}
