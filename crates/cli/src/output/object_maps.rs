//! Entries of the BPF maps of compiled objects as text and JSON, decoded by their BTF types.

use super::json;
use crate::exit::Failure;
use kestrel::bpf::{BpfMap, value};
use kestrel::kernel::bpf::MapKind;
use kestrel_trace::print::thousands;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// An entry of a map: a key and its value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Entry {
    pub(crate) key: Value,
    /// The value; of a per-CPU map the list of the CPUs' values.
    pub(crate) value: Value,
}

/// Whether a map's values can be read by key.
pub(crate) fn is_readable(map: &BpfMap) -> bool {
    let readable = [
        MapKind::HASH,
        MapKind::ARRAY,
        MapKind::PERCPU_HASH,
        MapKind::PERCPU_ARRAY,
        MapKind::LRU_HASH,
        MapKind::LRU_PERCPU_HASH,
        MapKind::LPM_TRIE,
    ];
    readable.contains(&map.info().kind)
}

/// The number of entries of one map that are shown at most.
const MAX_ENTRIES: usize = 1000;

/// The entries of a map; of an array those that are not zero.
pub(crate) fn entries(map: &BpfMap) -> Result<Vec<Entry>, Failure> {
    Ok(counted_entries(map)?.1)
}

/// The number of entries in a map, and those that are shown.
fn counted_entries(map: &BpfMap) -> Result<(usize, Vec<Entry>), Failure> {
    let kind = map.info().kind;
    let sparse = matches!(kind, MapKind::ARRAY | MapKind::PERCPU_ARRAY) && map.info().entries > 1;
    let all = map.entries()?;
    let held = all.len();
    let shown = all
        .into_iter()
        .filter(|(_, element)| !sparse || element.iter().any(|byte| *byte != 0));
    let of = |(key, element): (Vec<u8>, Vec<u8>)| {
        let key = match map.key_type() {
            Some((btf, ty)) => value::to_json(btf, ty, &key),
            None => value::plain(&key),
        };
        let one = |bytes: &[u8]| match map.value_type() {
            Some((btf, ty)) => value::to_json(btf, ty, bytes),
            None => value::plain(bytes),
        };
        let value = match map.info().is_per_cpu() {
            true => Value::Array(map.cpu_values(&element).map(one).collect()),
            false => one(&element),
        };
        Entry { key, value }
    };
    Ok((held, shown.take(MAX_ENTRIES).map(of).collect()))
}

/// An entry as a line of its own.
#[derive(Debug, Serialize)]
struct EntryLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'a str>,
    map: &'a str,
    #[serde(flatten)]
    entry: Entry,
}

/// Prints a map as text, or as one JSON object per entry; `object`, where given, is a member of each.
pub(crate) fn print(
    out: &mut impl std::io::Write,
    map: &BpfMap,
    object: Option<&str>,
    as_json: bool,
) -> Result<(), Failure> {
    if !as_json {
        return Ok(out.write_all(text(map)?.as_bytes())?);
    }
    for entry in entries(map)? {
        let line = EntryLine {
            object,
            map: map.name(),
            entry,
        };
        writeln!(out, "{}", json::line(&line)?)?;
    }
    Ok(())
}

/// A map as text, one line per entry.
pub(crate) fn text(map: &BpfMap) -> Result<String, Failure> {
    let mut out = String::new();
    let (held, entries) = counted_entries(map)?;
    // Writing to a string cannot fail.
    if !map.is_data() {
        let (kind, room) = (map.info().kind, thousands(u64::from(map.info().entries)));
        let held = thousands(held as u64);
        let _ = writeln!(out, "{} ({kind}, {held} of {room} entries)", map.name());
    }
    for entry in &entries {
        let _ = match map.is_data() {
            true => writeln!(out, "{} {}", map.name(), value::to_text(&entry.value)),
            false => writeln!(
                out,
                "  {}: {}",
                value::to_text(&entry.key),
                value::to_text(&entry.value)
            ),
        };
    }
    Ok(out)
}
