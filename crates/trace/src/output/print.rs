//! `print` of a value, and of a map.

use super::{Effect, MapShown, Output, Reached};
use crate::value::Value;

pub(super) static PRINT: Output = Output {
    verb: "print",
    effect: |reached| {
        let value = reached.values.first().copied().unwrap_or(Value::Missing);
        Effect::Print(reached.form.value(value, reached.symbols))
    },
};

pub(super) static PRINT_MAP: Output = Output {
    verb: "print_map",
    effect: map,
};

fn map(reached: &Reached<'_>) -> Effect {
    let mut words = reached.text.split(' ');
    let name = words.next().unwrap_or_default();
    if let Some(held) = reached.values.get(1) {
        return Effect::Print(reached.form.single(name, *held, reached.symbols));
    }
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Effect::PrintMap(MapShown {
        name: name.to_owned(),
        generation: reached.number(0).cast_unsigned(),
        top: number(),
        div: number(),
    })
}
