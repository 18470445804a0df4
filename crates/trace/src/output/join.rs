//! `join`: texts on one line.

use super::{Effect, Output};
use crate::value::Value;

pub(super) static JOIN: Output = Output {
    verb: "join",
    effect: |reached| {
        let mut line = Vec::new();
        for value in &reached.values {
            join(*value, reached.text, &mut line);
        }
        if !reached.form.json {
            line.push(b'\n');
        }
        Effect::Print(reached.form.data("join", line))
    },
};

/// Appends the texts in a value that are not empty.
fn join(value: Value<'_>, between: &str, line: &mut Vec<u8>) {
    match value {
        Value::Text(text) | Value::CutText(text) if !text.is_empty() => {
            if !line.is_empty() {
                line.extend_from_slice(between.as_bytes());
            }
            line.extend_from_slice(text);
        }
        Value::Array(elements) => elements.iter().for_each(|value| join(value, between, line)),
        Value::Composite(parts) => parts.iter().for_each(|(_, value)| join(value, between, line)),
        _ => {}
    }
}
