//! Latencies between paired events as a table with histograms, and as JSON.

use super::columns::{Column, Columns};
use super::groups::keys;
use kestrel_query::{Latency, Unpaired};
use kestrel_trace::print::{counted, duration, shown, thousands};
use serde::Serialize;
use serde_json::Value as Json;

/// The number of rows whose histograms are printed below the table.
const HISTOGRAMS: usize = 4;

/// Figures of the times, as columns.
const FIGURES: [&str; 8] = ["count", "avg", "min", "max", "p50", "p90", "p99", "p99.9"];

/// The first `limit` rows, what is not among them, histograms, and what met no partner.
pub(crate) fn text(names: &[String], rows: &[Latency], limit: usize, unpaired: &[Unpaired]) -> String {
    let (rows, others) = rows.split_at(limit.min(rows.len()));
    let mut text = match rows {
        [] => String::new(),
        rows => table(names, rows).text(),
    };
    if !others.is_empty() {
        let pairs = others.iter().map(|row| row.ns.count()).sum();
        let (others, pairs) = (
            counted(others.len() as u64, "other row"),
            counted(pairs, "latency"),
        );
        text.push_str(&format!("\n{others} with {pairs}\n"));
    }
    match rows.len() <= HISTOGRAMS {
        true => rows.iter().for_each(|row| {
            text.push_str(&format!("\n{} (ns)", title(row)));
            row.ns.histogram(&mut text);
        }),
        false => text.push_str(&format!("\nhistograms: --limit {HISTOGRAMS}, or --format json\n")),
    }
    for pair in unpaired {
        let (begins, ends) = (thousands(pair.begins), thousands(pair.ends));
        let (begin, end) = (shown(&pair.begin), shown(&pair.end));
        text.push_str(&format!("unpaired: {begins} {begin}, {ends} {end}\n"));
    }
    text
}

fn table(names: &[String], rows: &[Latency]) -> Columns {
    let mut columns = vec![Column::Left; 2 + names.len()];
    columns.extend(FIGURES.map(|_| Column::Right));
    let mut table = Columns::new(columns);
    let names = names.iter().map(|name| shown(name).into_owned());
    let head = ["from", "to"].map(str::to_owned).into_iter().chain(names);
    table.row("", head.chain(FIGURES.map(str::to_owned)).collect::<Vec<_>>());
    for row in rows {
        let ends = [&row.begin, &row.end].into_iter().chain(&row.shown);
        let cells = ends.map(|text| shown(text).into_owned());
        let figures = FIGURES.map(|name| {
            let figure = row.ns.figure(name).unwrap_or_default();
            let figure = u64::try_from(figure).unwrap_or_default();
            if name == "count" {
                thousands(figure)
            } else {
                duration(figure)
            }
        });
        let cells = cells.chain(figures);
        table.row("", cells.collect::<Vec<_>>());
    }
    table
}

fn title(row: &Latency) -> String {
    let mut title = format!("{} to {}", shown(&row.begin), shown(&row.end));
    if !row.shown.is_empty() {
        title.push_str(&format!(", {}", shown(&row.shown.join(", "))));
    }
    title
}

/// Latencies as JSON has them, all times in ns (docs/reading-a-recording.md).
#[derive(Debug, Serialize)]
pub(crate) struct LatenciesJson<'a> {
    latencies: Vec<LatencyJson<'a>>,
    others: OthersJson,
    unpaired: Vec<UnpairedJson<'a>>,
}

/// A row.
#[derive(Debug, Serialize)]
struct LatencyJson<'a> {
    begin: &'a str,
    end: &'a str,
    ns: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Json>,
}

/// Rows that are not among the first.
#[derive(Debug, Serialize)]
struct OthersJson {
    rows: usize,
    count: u64,
}

/// Events that met no partner.
#[derive(Debug, Serialize)]
struct UnpairedJson<'a> {
    begin: &'a str,
    end: &'a str,
    begins: u64,
    ends: u64,
}

/// The rows as data.
pub(crate) fn json<'a>(
    names: &[String],
    rows: &'a [Latency],
    limit: usize,
    unpaired: &'a [Unpaired],
) -> LatenciesJson<'a> {
    let (rows, others) = rows.split_at(limit.min(rows.len()));
    let row = |row: &'a Latency| LatencyJson {
        begin: &row.begin,
        end: &row.end,
        ns: row.ns.json(),
        key: (!names.is_empty()).then(|| keys(names, &row.keys)),
    };
    let alone = |pair: &'a Unpaired| UnpairedJson {
        begin: &pair.begin,
        end: &pair.end,
        begins: pair.begins,
        ends: pair.ends,
    };
    LatenciesJson {
        latencies: rows.iter().map(row).collect(),
        others: OthersJson {
            rows: others.len(),
            count: others.iter().map(|row| row.ns.count()).sum(),
        },
        unpaired: unpaired.iter().map(alone).collect(),
    }
}
