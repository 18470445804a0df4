//! Maps as text, the way bpftrace prints them.

use super::map_type::{MapType, ValueKind};
use super::read::{Row, RowValue, Snapshot};
use crate::layout::CompositeKind;
use crate::print::{Style, styled, tuple_members};
use crate::print::{counted, were};
use crate::symbol::Symbols;
use crate::value::Value;
use std::collections::BTreeMap;

/// Options of showing a map: `print(@x, top, div)`.
#[derive(Clone, Copy, Debug)]
pub struct Show<'s> {
    /// The style of values.
    pub style: Style<'s>,
    /// Only so many keys, those with the greatest values; 0 for all.
    pub top: u64,
    /// Divisor of numbers; 0 counts as 1.
    pub div: u64,
    /// The separator of the parts of a key.
    pub between: &'s str,
}

impl<'s> Show<'s> {
    /// A request for all of a map.
    pub fn all(style: Style<'s>) -> Self {
        Self {
            style,
            top: 0,
            div: 1,
            between: ", ",
        }
    }

    pub(super) fn divisor(&self) -> i128 {
        self.div.max(1).into()
    }
}

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
    shown(snapshot, Show::all(Style::MAP), symbols)
}

/// Text of the wanted part of a map, as lines.
pub fn shown(snapshot: &Snapshot, show: Show<'_>, symbols: &Symbols) -> String {
    let mut out = Vec::new();
    written(snapshot, show, symbols, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends what of a map is wanted, as lines: bytes, because strings of others need not be UTF-8.
pub fn written(snapshot: &Snapshot, show: Show<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    let ty = &snapshot.ty;
    let title = ty.title();
    for row in rows(snapshot, show, symbols) {
        out.extend_from_slice(title.as_bytes());
        if !ty.keys.is_empty() {
            out.push(b'[');
            out.extend_from_slice(&row.key);
            out.push(b']');
        }
        out.push(b':');
        held(row.row, &row.value, ty, show, symbols, out);
    }
    if snapshot.lost > 0 {
        let lost = format!(
            "{title}: {} {} not counted: there is room for {} (config = {{ max_map_keys = N }})\n",
            counted(snapshot.lost, "update"),
            were(snapshot.lost),
            counted(u64::from(ty.entries), "key")
        );
        out.extend_from_slice(lost.as_bytes());
    }
}

/// A row as it is shown: one or several of the map's.
pub(super) struct Shown<'r> {
    /// The key as text.
    pub(super) key: Vec<u8>,
    /// The first of its rows.
    pub(super) row: &'r Row,
    /// The value, of all its rows together.
    pub(super) value: RowValue,
}

/// The rows that are wanted, with their keys as text. Keys that read alike, as stacks of several processes or two events of one function, are one row, where a function joins their values.
pub(super) fn rows<'r>(snapshot: &'r Snapshot, show: Show<'_>, symbols: &Symbols) -> Vec<Shown<'r>> {
    let ty = &snapshot.ty;
    let all = snapshot.rows.iter().map(|row| Shown {
        key: key(row, ty, show, symbols),
        row,
        value: row.value.clone(),
    });
    let mut all = match &ty.value {
        ValueKind::Aggregation(aggregation) if ty.has_keys_alike() => {
            let mut joined: BTreeMap<Vec<u8>, Shown<'r>> = BTreeMap::new();
            for shown in all {
                match (
                    joined.get_mut(&shown.key).map(|known| &mut known.value),
                    &shown.value,
                ) {
                    (Some(RowValue::Words(sum)), RowValue::Words(words)) => {
                        // A row of an earlier version may have fewer words.
                        sum.resize(sum.len().max(words.len()), 0);
                        aggregation.function.join(aggregation, sum, words);
                    }
                    _ => _ = joined.insert(shown.key.clone(), shown),
                }
            }
            let mut joined: Vec<_> = joined.into_values().collect();
            joined.sort_by_key(|shown| shown.value.weight(&ty.value));
            joined
        }
        _ => all.collect(),
    };
    let top = usize::try_from(show.top).unwrap_or(usize::MAX);
    if top > 0 && all.len() > top {
        all.drain(..all.len() - top);
    }
    all
}

/// A key of a map, as it is shown by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key; empty where the map has none.
    pub key: String,
    /// The value in one line.
    pub value: String,
    /// The value in as many lines as it needs.
    pub whole: String,
    /// The value as one number: the count, the sum, the average, or how many values a histogram has.
    pub weight: i128,
}

/// The keys of a map, the one with the smallest value first.
pub fn entries(snapshot: &Snapshot, symbols: &Symbols) -> Vec<Entry> {
    let show = Show::all(Style::MAP);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let entry = |shown: Shown<'_>| {
        let mut whole = Vec::new();
        held(shown.row, &shown.value, &snapshot.ty, show, symbols, &mut whole);
        let whole = text(&whole);
        let weight = shown.value.weight(&snapshot.ty.value);
        let value = match (snapshot.brief(shown.row), whole.contains('\n')) {
            (_, false) => whole.clone(),
            (Some(brief), true) => brief,
            (None, true) => weight.to_string(),
        };
        Entry {
            key: text(&shown.key),
            value,
            whole,
            weight,
        }
    };
    rows(snapshot, show, symbols).into_iter().map(entry).collect()
}

/// The parts of a key; a tuple that is the only part has no parentheses.
fn key(row: &Row, ty: &MapType, show: Show<'_>, symbols: &Symbols) -> Vec<u8> {
    let style = show.style;
    let mut out = Vec::new();
    for (index, value) in row.keys(ty).enumerate() {
        match value {
            Value::Composite(parts) if ty.keys.len() == 1 && parts.ty().kind == CompositeKind::Tuple => {
                tuple_members(parts, style, symbols, &mut out);
            }
            value => {
                if index > 0 {
                    out.extend_from_slice(show.between.as_bytes());
                }
                styled(value, style, symbols, &mut out);
            }
        }
    }
    out
}

fn held(row: &Row, value: &RowValue, ty: &MapType, show: Show<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    if let (RowValue::Words(words), ValueKind::Aggregation(aggregation)) = (value, &ty.value) {
        let mut text = String::new();
        aggregation
            .function
            .text(aggregation, words, show.divisor(), &mut text);
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b' ');
    styled(divided(row.held(ty), show), show.style, symbols, out);
    out.push(b'\n');
}

/// The text of a value that is no aggregation; integers are divided.
pub(super) fn divided<'v>(value: Option<Value<'v>>, show: Show<'_>) -> Value<'v> {
    match value.unwrap_or(Value::Fault) {
        Value::Signed { value, base, size } => Value::Signed {
            value: (i128::from(value) / show.divisor()) as i64,
            base,
            size,
        },
        Value::Unsigned { value, base, size } => Value::Unsigned {
            value: value / show.div.max(1),
            base,
            size,
        },
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::super::aggregation::Aggregation;
    use super::super::function::COUNT;
    use super::*;
    use crate::layout::{EventName, FieldType, Names};

    /// A map by event number, as the readers of a session with these events have it.
    fn map(what: EventName, value: ValueKind) -> MapType {
        let key = FieldType::Enumeration {
            size: 8,
            signed: false,
            names: what.unnamed(),
        };
        let events = ["kprobe:vfs_read", "fentry:vfs_read", "kprobe:vfs_write"];
        let numbered = (4..).zip(events.map(str::to_owned));
        let names: Names = numbered.collect();
        let ty = MapType {
            name: "x".to_owned(),
            number: 0,
            keys: vec![key],
            value,
            entries: 10,
            evicts: false,
            generations: false,
            marks: false,
            by_event: false,
            first: String::new(),
        };
        ty.named(&names)
    }

    fn printed(ty: &MapType) -> String {
        let values = [7_u64, 5, 9].map(u64::to_le_bytes);
        let elements = (4_u64..).zip(&values);
        let elements = elements.map(|(event, value)| (event.to_le_bytes().to_vec(), [value.as_slice()]));
        text(&Snapshot::new(ty, &[0; 64], elements), &Symbols::default())
    }

    #[test]
    fn events_of_one_function_are_one_row_by_its_name() {
        let count = || ValueKind::Aggregation(Aggregation::new(COUNT, false));
        assert_eq!(
            printed(&map(EventName::Function, count())),
            "@x[vfs_write]: 9\n@x[vfs_read]: 12\n"
        );
        assert_eq!(
            printed(&map(EventName::Event, count())),
            "@x[fentry:vfs_read]: 5\n@x[kprobe:vfs_read]: 7\n@x[kprobe:vfs_write]: 9\n"
        );
    }
}
