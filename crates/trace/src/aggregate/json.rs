//! Maps as JSON, in bpftrace's shapes.

use super::read::{Held, Row, Snapshot, is_signed, mean};
use super::text::shown;
use super::{Buckets, ValueKind};
use crate::symbol::Symbols;
use crate::value::{Value, name_of};
use serde_json::{Map, Value as Json, json};

/// A map as one object: `{"type": "map", "data": {"@x": {"key,key": value}}}`. The type is `hist` for histograms and `stats` for statistics; a map
/// without keys has its value in the keys' place. What was lost stands beside `data` where it is not 0.
pub fn json(snapshot: &Snapshot, symbols: &Symbols) -> Json {
    let ty = &snapshot.ty;
    let kind = match ty.value {
        ValueKind::Histogram(_) => "hist",
        ValueKind::Stats { .. } => "stats",
        _ => "map",
    };
    let data = if ty.keys.is_empty() {
        snapshot
            .rows
            .first()
            .map_or(Json::Null, |row| held(snapshot, row, symbols))
    } else {
        let row = |row: &Row| {
            let keys: Vec<String> = row.keys(ty).map(|key| shown(key, symbols)).collect();
            (keys.join(","), held(snapshot, row, symbols))
        };
        Json::Object(snapshot.rows.iter().map(row).collect::<Map<_, _>>())
    };
    let mut all = json!({ "type": kind, "data": { ty.title(): data } });
    if snapshot.lost > 0 {
        all["lost"] = snapshot.lost.into();
    }
    all
}

fn held(snapshot: &Snapshot, row: &Row, symbols: &Symbols) -> Json {
    let kind = &snapshot.ty.value;
    let number = |n: i128| {
        i64::try_from(n)
            .map(Json::from)
            .or_else(|_| u64::try_from(n).map(Json::from))
    };
    let number = |n: i128| number(n).unwrap_or(Json::Null);
    match (&row.value, kind) {
        (Held::Number(n), ValueKind::Scalar(field)) => match Value::read(field, &n.to_le_bytes()) {
            Value::Signed { value, .. } => value.into(),
            Value::Unsigned { value, .. } => value.into(),
            Value::Bool(value) => value.into(),
            // An enumerator without a name is a number, as in records.
            Value::Enumeration { value, signed, names } if name_of(value, names).is_none() => match signed {
                true => value.into(),
                false => (value as u64).into(),
            },
            other => shown(other, symbols).into(),
        },
        (Held::Number(n), kind) if is_signed(kind) => (*n as i64).into(),
        (Held::Number(n), _) => (*n).into(),
        (Held::Text(text), _) => shown(Value::Text(text), symbols).into(),
        (Held::Fault, _) => Json::Null,
        (Held::Mean { count, sum }, kind) => {
            let signed = is_signed(kind);
            let average = number(mean(*count, *sum, signed));
            match kind {
                ValueKind::Stats { .. } => {
                    json!({ "count": count, "average": average, "total": number(mean(1, *sum, signed)) })
                }
                _ => average,
            }
        }
        (Held::Histogram(counts), ValueKind::Histogram(buckets)) => histogram(counts, *buckets, number),
        (Held::Histogram(_), _) => Json::Null,
    }
}

/// Buckets from the first that holds something to the last.
fn histogram(counts: &[u64], buckets: Buckets, number: impl Fn(i128) -> Json) -> Json {
    let first = counts.iter().position(|c| *c > 0).unwrap_or(counts.len());
    let last = counts.iter().rposition(|c| *c > 0).map_or(0, |last| last + 1);
    let bucket = |(index, count): (usize, &u64)| {
        let label = buckets.label(index as u32);
        let mut bucket = Map::new();
        bucket.extend(label.from.map(|from| ("min".to_owned(), number(from))));
        bucket.extend(label.to.map(|to| ("max".to_owned(), number(to))));
        bucket.insert("count".to_owned(), (*count).into());
        Json::Object(bucket)
    };
    counts
        .iter()
        .enumerate()
        .take(last)
        .skip(first)
        .map(bucket)
        .collect()
}
