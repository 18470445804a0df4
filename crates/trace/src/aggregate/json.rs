//! Maps as JSON, in the form that bpftrace prints.

use super::map_type::ValueKind;
use super::read::{RowValue, Snapshot};
use super::text::{Show, Shown, divided, rows};
use crate::print::{self, JsonStyle, Style, bpftrace_string, separate};
use crate::symbol::Symbols;
use serde_json::Value as Json;
use std::collections::HashMap;

/// A map as one object: `{"type": "map", "data": {"@x": {"key,key": value}}}`. The type is `hist` for histograms and `stats` for averages and statistics; a map
/// without keys has its value in the keys' place. Enumerators are names. What was lost stands beside `data` where it is not 0.
pub fn json(snapshot: &Snapshot, symbols: &Symbols) -> Json {
    let mut line = Vec::new();
    let show = Show {
        between: ",",
        ..Show::all(Style::MAP)
    };
    object(snapshot, show, symbols, &mut line);
    // What was written just now is valid JSON.
    serde_json::from_str(&String::from_utf8_lossy(&line)).unwrap_or_default()
}

/// Appends a map as bpftrace's line of JSON, with its line break; nothing for a map with keys that has none.
pub fn json_line(snapshot: &Snapshot, show: Show<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    if !snapshot.is_empty() {
        object(snapshot, show, symbols, out);
        out.push(b'\n');
    }
}

fn object(snapshot: &Snapshot, show: Show<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    let ty = &snapshot.ty;
    let kind = match &ty.value {
        ValueKind::Aggregation(aggregation) => aggregation.function.json_type(),
        ValueKind::Scalar(_) | ValueKind::CharArray { .. } | ValueKind::Whole(_) => "map",
    };
    out.extend_from_slice(format!("{{\"type\": \"{kind}\", \"data\": {{").as_bytes());
    bpftrace_string(ty.title().as_bytes(), out);
    out.extend_from_slice(b": ");
    let rows = rows(snapshot, show, symbols);
    match ty.keys.is_empty() {
        true => match rows.first() {
            Some(row) => append_value(snapshot, row, show, symbols, out),
            None => out.extend_from_slice(b"null"),
        },
        false => {
            out.push(b'{');
            let mut names = HashMap::new();
            for (index, mut row) in rows.into_iter().enumerate() {
                separate(index, b", ", out);
                let mut key = Vec::new();
                // bpftrace removes blanks in keys. In Kestrel's own form they are kept, because names of threads have some.
                match show.style.raw {
                    true => {
                        row.key.retain(|byte| *byte != b' ');
                        bpftrace_string(&row.key, &mut key);
                    }
                    // Readers of JSON keep one of two members of one name: `("a,b", "c")` and `("a", "b,c")` get different ones.
                    false => {
                        bpftrace_string(&row.key, &mut key);
                        let alike: &mut u32 = names.entry(key.clone()).or_default();
                        *alike += 1;
                        if *alike > 1 {
                            row.key.extend_from_slice(format!("#{alike}").as_bytes());
                            key.clear();
                            bpftrace_string(&row.key, &mut key);
                        }
                    }
                }
                out.extend_from_slice(&key);
                out.extend_from_slice(b": ");
                append_value(snapshot, &row, show, symbols, out);
            }
            out.push(b'}');
        }
    }
    out.push(b'}');
    if snapshot.lost > 0 {
        out.extend_from_slice(format!(", \"lost\": {}", snapshot.lost).as_bytes());
    }
    out.push(b'}');
}

fn append_value(
    snapshot: &Snapshot,
    shown: &Shown<'_>,
    show: Show<'_>,
    symbols: &Symbols,
    out: &mut Vec<u8>,
) {
    let ty = &snapshot.ty;
    if let (RowValue::Words(words), ValueKind::Aggregation(aggregation)) = (&shown.value, &ty.value) {
        return aggregation.function.json(aggregation, words, show.divisor(), out);
    }
    let style = match show.style.raw {
        true => JsonStyle::Bpftrace {
            trailer: show.style.trailer,
        },
        // The form of Kestrel's own commands has names, and exact numbers.
        false => JsonStyle::Record,
    };
    print::json(divided(shown.row.held(ty), show), style, symbols, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::MapType;
    use crate::layout::{Base, FieldType};

    #[test]
    fn keys_that_read_alike_are_two_members() {
        let text = || FieldType::CharArray { size: 8 };
        let ty = MapType {
            name: "x".to_owned(),
            number: 0,
            keys: vec![text(), text()],
            value: ValueKind::Scalar(FieldType::Integer {
                size: 8,
                signed: true,
                base: Base::Decimal,
            }),
            entries: 10,
            evicts: false,
            generations: false,
            marks: false,
            by_event: false,
            first: String::new(),
        };
        let elements = [
            (*b"a,b\0\0\0\0\0c\0\0\0\0\0\0\0", 1_u64),
            (*b"a\0\0\0\0\0\0\0b,c\0\0\0\0\0", 2),
        ];
        let elements = elements.map(|(key, value)| (key.to_vec(), value.to_le_bytes()));
        let elements = elements
            .iter()
            .map(|(key, value)| (key.clone(), std::iter::once(value.as_slice())));
        let snapshot = Snapshot::new(&ty, &[0; 72], elements);
        let json = json(&snapshot, &Symbols::default());
        let expected = serde_json::json!({ "a,b,c": 1, "a,b,c#2": 2 });
        assert_eq!(json["data"]["@x"], expected);
    }
}
