//! `print` of a value, and of a map.

use super::reached::{Effect, MapShown, Output, Reached};
use crate::value::Value;

pub(super) static PRINT: Output = Output {
    verb: "print",
    needs_trust: false,
    effect: |reached| {
        let value = reached.values.first().copied().unwrap_or(Value::Missing);
        Effect::Print(reached.form.value(value, reached.symbols))
    },
};

pub(super) static PRINT_MAP: Output = Output {
    verb: "print_map",
    needs_trust: false,
    effect: map,
};

fn map(reached: &mut Reached<'_>) -> Effect {
    let (name, held) = match reached.text.split_once('\n') {
        Some((name, _)) => (name, reached.values.get(1)),
        None => (reached.text, None),
    };
    if let Some(held) = held {
        let held = divided(*held, reached.number(3));
        return Effect::Print(reached.form.single(name, held, reached.symbols));
    }
    Effect::PrintMap(MapShown {
        name: name.to_owned(),
        generation: reached.number(0).cast_unsigned(),
        top: reached.number(1).cast_unsigned(),
        div: reached.number(2).cast_unsigned(),
    })
}

/// A number divided as `print(@x, top, div)` says; 0 counts as 1.
fn divided(value: Value<'_>, by: i64) -> Value<'_> {
    match value {
        Value::Signed { value, base, size } if by > 1 => Value::Signed {
            value: value / by,
            base,
            size,
        },
        Value::Unsigned { value, base, size } if by > 1 => Value::Unsigned {
            value: value / by.cast_unsigned(),
            base,
            size,
        },
        other => other,
    }
}
