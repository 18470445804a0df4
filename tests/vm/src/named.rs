//! Named probes as the product lists them.

use crate::kestrel;
use serde_json::Value;

/// The named probes, as JSON has them.
///
/// # Panics
/// When it is not so.
#[must_use]
pub fn listed() -> Vec<Value> {
    let list = kestrel(&["probe", "list", "--format", "json"]).success();
    list.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// One of the probes, by its name.
///
/// # Panics
/// When it is not so.
#[must_use]
pub fn probe(name: &str) -> Value {
    let all = listed();
    let found = all.iter().find(|probe| probe["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {all:?}")).clone()
}

/// A number of theirs.
///
/// # Panics
/// When it is not so.
#[must_use]
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Whether probes' hits are those of so many calls, but for what the kernel said it missed; asked for once, for all of them.
///
/// # Panics
/// When it is not so.
pub fn hit(expected: &[(&str, u64)]) {
    let all = listed();
    for (name, calls) in expected {
        let probe = all.iter().find(|probe| probe["name"] == *name);
        let probe = probe.unwrap_or_else(|| panic!("no {name} in {all:?}"));
        let (hits, missed) = (number(&probe["hits"]), number(&probe["missed"]));
        assert!(
            hits <= *calls && hits + missed >= *calls,
            "{calls} calls: {probe}"
        );
    }
}

/// Adds some, by the words behind `probe add`.
///
/// # Panics
/// When it is not so.
pub fn add(words: &[&str]) {
    kestrel(&[&["probe", "add"], words].concat()).success();
}
