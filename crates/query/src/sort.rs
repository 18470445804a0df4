//! The order of reported rows: by a figure, the largest first, or by a key, the smallest first; turned round where asked for.

use crate::error::{Error, Result};
use serde_json::Value as Json;
use std::cmp::Ordering;

/// Sort order of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    column: String,
    turned: bool,
}

/// A row that can be sorted.
pub(crate) trait Row {
    /// Keys of the row, which it is sorted by.
    fn keys(&self) -> &[Json];
    /// A figure by its name.
    fn figure(&self, name: &str) -> Option<i128>;
}

impl Sort {
    /// Reads a column's name, with `-` before it for the other way round.
    pub fn parse(text: &str) -> Self {
        let column = text.strip_prefix('-');
        Self {
            column: column.unwrap_or(text).to_owned(),
            turned: column.is_some(),
        }
    }
}

/// Sorts rows whose keys and figures have these names; without a wish by `usual`, a figure.
///
/// # Errors
/// When there is no such column.
pub(crate) fn sort<R: Row>(
    rows: &mut [R],
    sort: Option<&Sort>,
    names: &[String],
    figures: &[&str],
    usual: &str,
) -> Result<()> {
    let column = sort.map_or(usual, |sort| sort.column.as_str());
    let turned = sort.is_some_and(|sort| sort.turned);
    let key = names.iter().position(|name| name == column);
    if key.is_none() && !figures.contains(&column) {
        let columns = names.iter().map(String::as_str).chain(figures.iter().copied());
        return Err(Error::Column {
            name: column.to_owned(),
            columns: columns.map(str::to_owned).collect(),
        });
    }
    rows.sort_by(|a, b| {
        let order = match key {
            Some(key) => values(&a.keys()[key], &b.keys()[key]),
            None => b.figure(column).cmp(&a.figure(column)),
        };
        let order = if turned { order.reverse() } else { order };
        // Rows that are equal stand in the order of their keys.
        order.then_with(|| all(a.keys(), b.keys()))
    });
    Ok(())
}

fn all(a: &[Json], b: &[Json]) -> Ordering {
    let orders = a.iter().zip(b).map(|(a, b)| values(a, b));
    orders.fold(Ordering::Equal, Ordering::then)
}

/// Numbers by their size, before texts by their letters, before all else.
fn values(a: &Json, b: &Json) -> Ordering {
    let number = |value: &Json| match value {
        Json::Bool(value) => Some(i128::from(*value)),
        value => value
            .as_i64()
            .map(i128::from)
            .or_else(|| value.as_u64().map(i128::from)),
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => match (a.as_str(), b.as_str()) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => a.to_string().cmp(&b.to_string()),
        },
    }
}
