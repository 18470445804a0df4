//! The output of `join`: strings on one line.

use super::form::Form;
use super::reached::{Effect, Output};
use crate::print::raw;
use crate::value::Value;

pub(super) static JOIN: Output = Output {
    verb: "join",
    needs_trust: false,
    effect: |reached| {
        let mut line = Vec::new();
        for value in &reached.values {
            if !join(*value, reached.text, reached.form, &mut line) {
                break;
            }
        }
        if !reached.form.json {
            line.push(b'\n');
        }
        Effect::Print(reached.form.data("join", line))
    },
};

/// Appends the strings in a value up to the first empty one; `false` if there was one. The null pointer that ends an array of arguments is read as an empty text.
fn join(value: Value<'_>, between: &str, form: Form<'_>, line: &mut Vec<u8>) -> bool {
    match value {
        Value::Text(text) | Value::CutText(text) if !text.is_empty() => {
            if !line.is_empty() {
                line.extend_from_slice(&raw::to_bytes(between));
            }
            form.text(text, line);
            true
        }
        Value::Array(elements) => elements.iter().all(|value| join(value, between, form, line)),
        Value::Composite(parts) => parts.iter().all(|(_, value)| join(value, between, form, line)),
        _ => false,
    }
}
