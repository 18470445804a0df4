//! Maps as JSON, in bpftrace's shapes.

use super::map_type::ValueKind;
use super::read::{Held, Snapshot};
use super::text::{rows, shown};
use crate::symbol::Symbols;
use crate::value::{Value, name_of};
use serde_json::{Map, Value as Json, json};

/// A map as one object: `{"type": "map", "data": {"@x": {"key,key": value}}}`. The type is `hist` for histograms and `stats` for statistics; a map
/// without keys has its value in the keys' place. What was lost stands beside `data` where it is not 0.
pub fn json(snapshot: &Snapshot, symbols: &Symbols) -> Json {
    let ty = &snapshot.ty;
    let kind = match &ty.value {
        ValueKind::Gathered(gathered) => gathered.function.json_type(),
        ValueKind::Scalar(_) | ValueKind::Text { .. } => "map",
    };
    let data = if ty.keys.is_empty() {
        snapshot
            .rows
            .first()
            .map_or(Json::Null, |row| held(snapshot, &row.value, symbols))
    } else {
        let row = |(keys, value): (Vec<String>, Held)| (keys.join(","), held(snapshot, &value, symbols));
        Json::Object(
            rows(snapshot, &|value| key(value, symbols))
                .into_iter()
                .map(row)
                .collect::<Map<_, _>>(),
        )
    };
    let mut all = json!({ "type": kind, "data": { ty.title(): data } });
    if snapshot.lost > 0 {
        all["lost"] = snapshot.lost.into();
    }
    all
}

/// A key: numbers are numbers, whatever people read for them.
fn key(value: Value<'_>, symbols: &Symbols) -> String {
    match value {
        Value::Signed { value, .. } => value.to_string(),
        Value::Unsigned { value, .. } => value.to_string(),
        other => shown(other, symbols),
    }
}

fn held(snapshot: &Snapshot, value: &Held, symbols: &Symbols) -> Json {
    let kind = &snapshot.ty.value;
    match (value, kind) {
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
        (Held::Words(words), ValueKind::Gathered(gathered)) => gathered.function.json(gathered, words),
        (Held::Text(text), _) => shown(Value::Text(text), symbols).into(),
        _ => Json::Null,
    }
}
