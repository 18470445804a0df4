//! Groups of records, with the distribution of one number in each, as a table and as JSON.

use super::columns::{Column, Columns};
use kestrel_query::{Distribution, Group, Grouped};
use kestrel_trace::print::{counted, shown, thousands};
use serde::Serialize;
use serde_json::{Map, Value as Json};

/// Figures of a measure, as columns.
const FIGURES: [&str; 6] = ["sum", "avg", "min", "max", "p50", "p99"];

/// The table, and lines about what is not in it.
pub(crate) fn text(grouped: &Grouped, total: u64) -> String {
    let mut columns: Vec<Column> = (0..grouped.names.len())
        .map(|key| key_column(&grouped.groups, key))
        .collect();
    columns.extend([Column::Right, Column::Right]);
    columns.extend(
        grouped
            .measure
            .iter()
            .flat_map(|_| FIGURES.map(|_| Column::Right)),
    );
    let mut table = Columns::new(columns);
    let keys = grouped.names.iter().map(|name| shown(name).into_owned());
    let figures = grouped.measure.iter().flat_map(|_| FIGURES);
    let head = ["count", "share"].into_iter().chain(figures).map(str::to_owned);
    table.row("", keys.chain(head).collect::<Vec<_>>());
    for group in &grouped.groups {
        let keys = group.shown.iter().map(|value| shown(value).into_owned());
        let counts = [thousands(group.count), share(group.count, total)];
        let figures = grouped.measure.iter().flat_map(|_| figures_of(&group.values));
        table.row("", keys.chain(counts).chain(figures).collect::<Vec<_>>());
    }
    // Shares are of all events: where rows are left out they do not add up, which the lines below explain.
    let mut text = table.text();
    if let Some(measure) = &grouped.measure {
        text.push_str(&format!("\nsum to p99 are those of {}\n", shown(measure)));
    }
    let (groups, records) = grouped.others;
    if groups > 0 {
        let (groups, share) = (counted(groups, "other group"), share(records, total));
        text.push_str(&format!(
            "\n{groups} with {}, {share}\n",
            counted(records, "event")
        ));
    }
    if grouped.without > 0 {
        let (events, share) = (counted(grouped.without, "event"), share(grouped.without, total));
        text.push_str(&format!(
            "\n{events} lack a field of {}, {share}\n",
            shown(&grouped.names.join(", "))
        ));
    }
    text
}

/// The column of a key: numbers are aligned right, strings left.
fn key_column(groups: &[Group], key: usize) -> Column {
    match groups.iter().all(|group| group.keys[key].is_number()) {
        true => Column::Right,
        false => Column::Left,
    }
}

fn figures_of(values: &Distribution) -> [String; 6] {
    if values.count() == 0 {
        return FIGURES.map(|_| "-".to_owned());
    }
    FIGURES.map(|name| values.figure(name).unwrap_or_default().to_string())
}

/// A share of all, as `12.3 %`.
fn share(count: u64, total: u64) -> String {
    format!("{:.1} %", count as f64 * 100.0 / total.max(1) as f64)
}

/// Groups as JSON has them (docs/reading-a-recording.md).
#[derive(Debug, Serialize)]
pub(crate) struct GroupsJson<'a> {
    by: &'a [String],
    groups: Vec<GroupJson>,
    others: OthersJson,
    without: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    measure: Option<&'a str>,
}

/// A group.
#[derive(Debug, Serialize)]
struct GroupJson {
    key: Json,
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
}

/// Groups that are not among the first.
#[derive(Debug, Serialize)]
struct OthersJson {
    groups: u64,
    count: u64,
}

/// The groups as data.
pub(crate) fn json(grouped: &Grouped) -> GroupsJson<'_> {
    let group = |group: &Group| GroupJson {
        key: keys(&grouped.names, &group.keys),
        count: group.count,
        value: grouped.measure.is_some().then(|| group.values.json()),
    };
    let (groups, count) = grouped.others;
    GroupsJson {
        by: &grouped.names,
        groups: grouped.groups.iter().map(group).collect(),
        others: OthersJson { groups, count },
        without: grouped.without,
        measure: grouped.measure.as_deref(),
    }
}

/// Values of keys, as an object with the keys' names.
pub(crate) fn keys(names: &[String], values: &[Json]) -> Json {
    Json::Object(
        names
            .iter()
            .cloned()
            .zip(values.iter().cloned())
            .collect::<Map<_, _>>(),
    )
}
