//! Values of any type out of any bytes: they can be shown in every style, and their JSON is JSON and says the same.

use crate::metadata::any_fixed;
use kestrel_trace::aggregate::{MapType, Show, ValueKind, json, json_line, read::Snapshot, written};
use kestrel_trace::layout::{CompositeKind, FieldType};
use kestrel_trace::print::{self, JsonStyle, Style, styled};
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Value;
use proptest::prelude::*;
use serde_json::Value as Json;

/// Whether JSON says what a value is: of numbers, bools and what is made of them.
fn agrees(value: Value<'_>, json: &Json) -> bool {
    let number = |text: String| json.to_string().trim_matches('"') == text;
    match value {
        Value::Signed { value, .. } => number(value.to_string()),
        Value::Unsigned { value, .. } => number(value.to_string()),
        Value::Bool(value) => *json == Json::Bool(value),
        Value::Float(value) if value.is_finite() => json
            .as_f64()
            .is_some_and(|read| (read - value).abs() <= value.abs() * 1e-15),
        Value::Float(_) => json.is_null(),
        Value::Array(elements) => {
            let Json::Array(all) = json else { return false };
            all.len() == elements.iter().count()
                && elements.iter().zip(all).all(|(value, json)| agrees(value, json))
        }
        Value::Composite(parts) if parts.ty().kind == CompositeKind::Tuple => {
            let Json::Array(all) = json else { return false };
            all.len() == parts.iter().count()
                && parts
                    .iter()
                    .zip(all)
                    .all(|((_, value), json)| agrees(value, json))
        }
        Value::Composite(parts) => {
            let Json::Object(all) = json else { return false };
            let names: Vec<&str> = parts.iter().map(|(member, _)| member.name.as_str()).collect();
            parts.iter().enumerate().all(|(index, (member, value))| {
                // Of several members of one name the last counts.
                let later = names[index + 1..].contains(&member.name.as_str());
                later || all.get(&member.name).is_some_and(|json| agrees(value, json))
            })
        }
        Value::Missing | Value::Fault => json.is_null() || *json == Json::String(String::new()),
        Value::Stack(_) => json.is_string() || json.is_array(),
        Value::Buffer(_) => json.is_string() || json.is_array(),
        _ => json.is_string() || json.is_number(),
    }
}

fn map_of(key: FieldType, value: FieldType) -> MapType {
    MapType {
        name: "x".to_owned(),
        number: 0,
        keys: vec![key],
        value: ValueKind::Whole(value),
        entries: 4,
        evicts: false,
        generations: true,
        marks: false,
        by_event: false,
        first: String::new(),
    }
}

proptest! {
    #[test]
    fn any_value_can_be_shown(ty in any_fixed(), bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(ty.is_sound());
        let value = Value::read(&ty, &bytes);
        let symbols = Symbols::default();
        let mut out = Vec::new();
        for style in [Style::RECORD, Style::MAP, Style::BPFTRACE] {
            styled(value, style, &symbols, &mut out);
        }
        if bytes.len() >= ty.fixed_size() as usize {
            let nothing = matches!(value, Value::Missing);
            prop_assert!(!nothing || matches!(ty, FieldType::HeldStack(_)), "{:?}", ty);
        }
        for style in [JsonStyle::Record, JsonStyle::BPFTRACE] {
            let mut text = Vec::new();
            print::json(value, style, &symbols, &mut text);
            let read: Json = serde_json::from_slice(&text).unwrap();
            prop_assert!(agrees(value, &read), "{:?} {}", ty, String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn any_map_can_be_shown_and_kept(
        key in any_fixed(), value in any_fixed(), bytes in prop::collection::vec(any::<u8>(), 2000..2001),
        count in 0..4usize,
    ) {
        let ty = map_of(key, value);
        let (key_size, value_size) = (ty.key_size() as usize, ty.value.size() as usize);
        prop_assume!(key_size + value_size <= bytes.len());
        let rows: Vec<(Vec<u8>, Vec<Vec<u8>>)> = (0..count)
            .map(|row| {
                let mut key = bytes[..key_size].to_vec();
                key[..8].fill(0);
                key[8..].rotate_left(row);
                (key, vec![bytes[key_size..][..value_size].to_vec()])
            })
            .collect();
        let lent = rows.iter().map(|(key, values)| (key.clone(), values.iter().map(Vec::as_slice)));
        let snapshot = Snapshot::new(&ty, &[], lent).with_stacks(5, |number, _| {
            number.is_multiple_of(2).then(|| vec![number as u8; 24])
        });
        prop_assert_eq!(snapshot.rows.len(), count);
        let symbols = Symbols::default();
        let mut out = Vec::new();
        for style in [Style::MAP, Style::BPFTRACE] {
            let show = Show {
                style,
                top: 2,
                div: 3,
                between: ", ",
            };
            written(&snapshot, show, &symbols, &mut out);
            let mut line = Vec::new();
            json_line(&snapshot, show, &symbols, &mut line);
            let read: Result<Json, _> = serde_json::from_slice(&line);
            prop_assert!(read.is_ok() || count == 0, "{}", String::from_utf8_lossy(&line));
        }
        let kept = serde_json::to_string(&snapshot).unwrap();
        let back: Snapshot = serde_json::from_str(&kept).unwrap();
        prop_assert_eq!(&back, &snapshot);
        prop_assert_eq!(json(&back, &symbols), json(&snapshot, &symbols));
    }
}
