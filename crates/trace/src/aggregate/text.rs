//! Maps as text, the way bpftrace prints them.

use super::map_type::{MapType, ValueKind};
use super::read::{Held, Row, Snapshot};
use crate::print::{counted, were};
use crate::print::{frame, value as print_value};
use crate::symbol::Symbols;
use crate::value::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A map as lines, smallest value first.
///
/// ```text
/// @reads[cat, 3]: 12
/// @stacks[
///     leaf+0x17 (/bin/program)
///     main+0x9 (/bin/program)
/// ]: 4
/// @sizes:
/// [2, 4)                 3 |@@@@@@@@@@@@@                                       |
/// [4, 8)                12 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
/// ```
pub fn text(snapshot: &Snapshot, symbols: &Symbols) -> String {
    let ty = &snapshot.ty;
    let title = ty.title();
    let mut out = String::new();
    for (keys, value) in rows(snapshot, &|key| shown(key, symbols)) {
        out += &title;
        if !keys.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(out, "[{}]", keys.join(", "));
        }
        out += ":";
        held(&mut out, ty, &value, symbols);
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

/// The rows with their keys as `shown` has them. Stacks of several processes that read alike are one row, where a function joins their values.
pub(super) fn rows(snapshot: &Snapshot, shown: &dyn Fn(Value<'_>) -> String) -> Vec<(Vec<String>, Held)> {
    let ty = &snapshot.ty;
    let keys = |row: &Row| -> Vec<String> { row.keys(ty).map(shown).collect() };
    let all = snapshot.rows.iter().map(|row| (keys(row), row.value.clone()));
    let ValueKind::Gathered(gathered) = &ty.value else {
        return all.collect();
    };
    if ty.most_frames().is_none() {
        return all.collect();
    }
    let mut joined: BTreeMap<Vec<String>, Held> = BTreeMap::new();
    for (keys, value) in all {
        match (joined.get_mut(&keys), value) {
            (Some(Held::Words(sum)), Held::Words(words)) => gathered.function.join(gathered, sum, &words),
            (_, value) => _ = joined.insert(keys, value),
        }
    }
    let mut joined: Vec<_> = joined.into_iter().collect();
    joined.sort_by_key(|(_, value)| value.weight(&ty.value));
    joined
}

/// A value as text.
pub(super) fn shown(value: Value<'_>, symbols: &Symbols) -> String {
    let mut bytes = Vec::new();
    if let Value::Stack(frames) = value {
        // A frame a line.
        for (index, address) in frames.iter().enumerate() {
            bytes.extend_from_slice(b"\n    ");
            frame(&frames, index, address, symbols, &mut bytes);
        }
        bytes.push(b'\n');
        return String::from_utf8_lossy(&bytes).into_owned();
    }
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
