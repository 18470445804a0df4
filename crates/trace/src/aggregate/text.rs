//! Maps as text, the way bpftrace prints them.

use super::map_type::{MapType, ValueKind};
use super::read::{Held, Snapshot};
use crate::print::value as print_value;
use crate::print::{counted, were};
use crate::symbol::Symbols;
use crate::value::Value;
use std::fmt::Write;

/// A map as lines, smallest value first.
///
/// ```text
/// @reads[cat, 3]: 12
/// @sizes:
/// [2, 4)                 3 |@@@@@@@@@@@@@                                       |
/// [4, 8)                12 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
/// ```
pub fn text(snapshot: &Snapshot, symbols: &Symbols) -> String {
    let ty = &snapshot.ty;
    let title = ty.title();
    let mut out = String::new();
    for row in &snapshot.rows {
        out += &title;
        let keys: Vec<String> = row.keys(ty).map(|key| shown(key, symbols)).collect();
        if !keys.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(out, "[{}]", keys.join(", "));
        }
        out += ":";
        held(&mut out, ty, &row.value, symbols);
    }
    if snapshot.lost > 0 {
        let _ = writeln!(
            out,
            "{title}: {} {} not counted: there is room for {} (config = {{ max_map_keys = N }})",
            counted(snapshot.lost, "update"),
            were(snapshot.lost),
            counted(u64::from(ty.entries), "key")
        );
    }
    out
}

/// A value as text.
pub(super) fn shown(value: Value<'_>, symbols: &Symbols) -> String {
    let mut bytes = Vec::new();
    print_value(value, symbols, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn held(out: &mut String, ty: &MapType, value: &Held, symbols: &Symbols) {
    let value = match (value, &ty.value) {
        (Held::Words(words), ValueKind::Gathered(gathered)) => {
            return gathered.function.text(gathered, words, out);
        }
        (Held::Number(n), ValueKind::Scalar(field)) => {
            return line(out, Value::read(field, &n.to_le_bytes()), symbols);
        }
        (Held::Text(text), _) => Value::Text(text),
        _ => Value::Fault,
    };
    line(out, value, symbols);
}

fn line(out: &mut String, value: Value<'_>, symbols: &Symbols) {
    let _ = writeln!(out, " {}", shown(value, symbols));
}
